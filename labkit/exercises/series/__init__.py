"""The exercises of each page: every module of this folder defines those of one page as `EXERCISES`."""
