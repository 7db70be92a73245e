"""A door for coding agents: one report about a kernel, short enough to be read whole.

`check` runs a kernel on its cases under all tools of check mode, compares it with a NumPy
reference, tries repairs, and answers with one verdict. ``hostcuda check`` prints the same report,
and ``hostcuda mcp`` serves it.
"""

__all__ = ["as_text", "capabilities", "check", "look"]


def __getattr__(name: str):
    """Import the module `report` when one of its functions is looked up here."""
    if name not in __all__:
        raise AttributeError(name)
    from hostcuda.agent import report  # here: the child process runs without it, and without pandas

    return getattr(report, name)
