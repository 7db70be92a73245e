"""The part of the build that pyproject.toml cannot say: a wheel has the lab's data and course inside the package."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

# Files of the checkout, and the folder of the package that gets them with their paths.
SHIPPED = {
    "data/**/*": ".",
    "notebooks/[!.]*.ipynb": "course",
    "notebooks/[!.]*/[!.]*.ipynb": "course",
    "docs/glossary.md": "course",
    "docs/results.md": "course",
    "docs/images/*": "course",
    # what pages show of the code that recorded other tools
    "recording/implicit_gemm*": "course",
    "recording/bias_relu*": "course",
}


class WithCourse(build_py):
    """The step of the build that copies the package."""

    def run(self) -> None:
        """Copy the package, and what it ships unless that stays in the checkout (an editable install)."""
        super().run()
        for pattern, folder in {} if self.editable_mode else SHIPPED.items():
            for path in filter(Path.is_file, Path().glob(pattern)):
                target = Path(self.build_lib, "labkit", folder, path)
                target.parent.mkdir(parents=True, exist_ok=True)
                self.copy_file(str(path), str(target))


setup(cmdclass={"build_py": WithCourse})
