"""Hopper's planted mistakes (`planted`) in check mode, and on a GPU under compute-sanitizer (`run_on_gpu`)."""
