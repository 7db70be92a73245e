"""The parts of a notebook page: engine, predictions, claims, listings, the table of the ladder."""
