"""Everything that reads or writes `data/`."""
