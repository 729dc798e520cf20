"""The five papers as published, a module each: algorithms on plain arrays, bounds and quantities, by theorem."""
