"""Why does it take that long? Counters, sanitizers, compiled code."""
