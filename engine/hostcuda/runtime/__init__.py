"""The runtime library. ``*.cpp`` is its source; `native` builds, loads and calls it."""
