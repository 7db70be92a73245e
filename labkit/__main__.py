"""`python -m labkit` is the command `labkit`."""

from labkit.report.command import main

main()
