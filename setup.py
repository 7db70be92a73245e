"""The part of the build that pyproject.toml cannot say: a wheel has the lab's data inside the package."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class WithData(build_py):
    """The step of the build that copies the package."""

    def run(self) -> None:
        """Copy the package, and `data/` into it unless it stays in the checkout (an editable install)."""
        super().run()
        if not self.editable_mode:
            self.copy_tree("data", str(Path(self.build_lib, "labkit", "data")))


setup(cmdclass={"build_py": WithData})
