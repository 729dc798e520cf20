"""Claims: tests of stated guarantees by replay, by fits and by search."""
