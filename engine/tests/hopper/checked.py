"""Run a planted mistake in check mode."""

from hostcuda.sanitize import Findings, sanitize_script

from .planted import FOLDER


def check(program: str, bug: int = 0) -> Findings:
    """Run a program with its mistake of that number in check mode, and return what was found."""
    path = str(FOLDER / f"{program}.cu")
    return sanitize_script(path, engine="cpu", capture=True, options=[f"-DBUG={bug}"])
