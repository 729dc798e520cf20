"""The ledger: a durable privacy budget of one data set."""
