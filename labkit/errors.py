"""The lab's own errors: each says what is wrong, where, and what to do."""


class LabError(Exception):
    """Anything the lab refuses, with a message a reader can act on."""
