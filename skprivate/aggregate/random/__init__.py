"""Random bags: how they are made, and models fitted to their sums."""
