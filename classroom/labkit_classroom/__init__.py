"""For a class: kernels of others in a sandbox, submissions and their grades, the edition for students."""

__version__ = "2.0.0"
