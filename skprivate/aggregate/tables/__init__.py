"""Tables: columns, cells, curated bags and their label sums."""
