"""Errors, paths, numbers and tables: what all other packages use."""
