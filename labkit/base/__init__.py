"""Errors, paths, atomic files, CUDA limits, numbers and tables: what all other packages use."""
