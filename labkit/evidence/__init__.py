"""Where the time goes: counters, errors that sanitizers find, compiled code, the launches of a program."""
