"""Everything that reads what was recorded in `data/`."""
