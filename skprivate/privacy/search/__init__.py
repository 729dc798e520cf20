"""Private search: the price of the best of a random number of evaluations."""
