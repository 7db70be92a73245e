"""What is measured on a GPU and kept in `data/`, and what is written from it: `python -m recording`."""
