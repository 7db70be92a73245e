"""What a notebook page says: the engine, predictions, tables, claims, listings."""
