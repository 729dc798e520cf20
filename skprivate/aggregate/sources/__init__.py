"""Sources: curated bags of databases and of GROUP BY tables."""
