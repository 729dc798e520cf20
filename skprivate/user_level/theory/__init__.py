"""Theory: bounds, covers and algorithms as they are published."""
