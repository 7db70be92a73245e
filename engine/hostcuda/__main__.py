"""`python -m hostcuda` is the command `hostcuda`."""

from hostcuda.command import main

main()
