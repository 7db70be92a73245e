"""What watches a program in a process of its own, and what says how this machine is."""
