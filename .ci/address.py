"""Write into the files of a release where it is published: python .ci/address.py OWNER/NAME TAG.

The checkout names no address, as anybody may publish a copy. On the package index there are no files beside a README,
so that its links lead to the tag; the registry of MCP servers asks for the owner's name.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROJECTS = (".", "engine", "classroom", "playground")


def make_absolute(text: str, folder: str, repository: str, tag: str) -> str:
    """Return a README with links and pictures of a file in `folder` as addresses on GitHub."""
    text = text.replace("](../../", f"](https://github.com/{repository}/")  # GitHub's own pages

    def replace(match: re.Match) -> str:
        picture = match[1] != "]("
        path = Path(ROOT, folder, match[2]).resolve().relative_to(ROOT).as_posix()
        host = "raw.githubusercontent.com" if picture else "github.com"
        return f"{match[1]}https://{host}/{repository}/{'' if picture else 'blob/'}{tag}/{path}"

    return re.sub(r'(\]\(|src="|srcset=")(?!https?://|#)([^)#"]+)', replace, text)


def main(repository: str, tag: str) -> None:
    """Rewrite the READMEs, `engine/server.json` and each pyproject.toml."""
    owner = repository.partition("/")[0]
    for folder in PROJECTS:
        readme, project = (ROOT / folder / name for name in ("README.md", "pyproject.toml"))
        text = make_absolute(readme.read_text("utf-8"), folder, repository, tag)
        readme.write_text(text.replace("io.github.OWNER/", f"io.github.{owner}/"), "utf-8")
        urls = f'[project.urls]\nRepository = "https://github.com/{repository}"\n\n'
        settings = project.read_text("utf-8")
        project.write_text(
            settings.replace("[tool.setuptools.dynamic", f"{urls}[tool.setuptools.dynamic", 1),
            "utf-8",
        )
    server = ROOT / "engine" / "server.json"
    text = server.read_text("utf-8").replace("OWNER/NAME", repository)
    server.write_text(text.replace("io.github.OWNER/", f"io.github.{owner}/"), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
