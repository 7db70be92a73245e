"""What everything else stands on: errors, paths, atomic files, numbers and tables."""
