"""The ladder: rungs, their variants, and plans that run them."""
