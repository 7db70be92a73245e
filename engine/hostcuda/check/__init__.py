"""Check mode: how kernels are compiled so that every access is reported, and the records of what was seen."""
