"""The host's C++ compiler, and the folder of what it has compiled."""
