"""Write the recipes for conda-forge of the engine and of the lab from their sdists: python .ci/recipe.py OWNER/NAME.

dist/conda/NAME/recipe.yaml says of each what its sdist says: version, ranges, digest. `rattler-build` can build it.
"""

import hashlib
import json
import re
import sys
import tarfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

DIST = Path(__file__).resolve().parent.parent / "dist"
# conda-forge's names, where they differ: the variants without graphical and optional parts.
NAMES = {
    "lazy-loader": "lazy_loader",
    "matplotlib": "matplotlib-base",
    "nbconvert": "nbconvert-core",
}
# What conda has to bring beside Python's packages, which extras are no options there, and what shows that it works.
PACKAGES = {
    "hostcuda": (["cxx-compiler"], [], "hostcuda", "hostcuda.command:main"),
    "cuda-convolution-lab": ([], ["notebooks", "lab"], "labkit", "labkit.cli:main"),
}
RECIPE = """\
schema_version: 1

context:
  version: "{version}"
  python_min: "{python}"

package:
  name: {name}
  version: ${{{{ version }}}}

source:
  url: https://github.com/{repository}/releases/download/v${{{{ version }}}}/{file}
  sha256: {digest}

build:
  number: 0
  noarch: python
  script: ${{{{ PYTHON }}}} -m pip install . -vv --no-deps --no-build-isolation
  python:
    entry_points:
      - {command} = {entry}

requirements:
  host:
    - python ${{{{ python_min }}}}.*
    - pip
    - setuptools >=77
  run:
    - __linux
    - python >=${{{{ python_min }}}}
{run}

tests:
  - python:
      imports: [{command}]
      python_version: ${{{{ python_min }}}}.*
  - script:
      - {command} --version
      - {command} doctor

about:
  homepage: https://github.com/{repository}
  repository: https://github.com/{repository}
  summary: {summary}
  license: {licence}
  license_file:
{files}

extra:
  recipe-maintainers:
    - {owner}
"""


def read_metadata(sdist: Path) -> Message:
    """Return an sdist's metadata."""
    with tarfile.open(sdist) as archive:
        info = archive.extractfile(f"{sdist.name.removesuffix('.tar.gz')}/PKG-INFO")
        return Parser().parsestr(info.read().decode())


def list_needed(metadata: Message, extras: list[str]) -> list[str]:
    """Return what a package needs, with these extras, as conda writes it: "numpy >=2.0.2,<3"."""
    needed = set()
    for line in metadata.get_all("Requires-Dist", []):
        requirement, _, marker = line.partition(";")
        extra = re.search(r'extra == "(\w+)"', marker)
        name, bounds = re.fullmatch(r"([\w.-]+)(?:\[\w+\])?\s*(.*)", requirement.strip()).groups()
        if (extra is None or extra[1] in extras) and name != metadata["Name"]:
            lower_first = ",".join(sorted(bounds.split(","), reverse=True))
            needed.add(f"{NAMES.get(name, name)} {lower_first}")
    return sorted(needed)


def write_recipe(name: str, repository: str) -> Path:
    """Write the recipe of a package whose sdist is in dist/; return its file."""
    beside, extras, command, entry = PACKAGES[name]
    (sdist,) = DIST.glob(f"{name.replace('-', '_')}-*.tar.gz")
    metadata = read_metadata(sdist)
    text = RECIPE.format(
        name=name,
        version=metadata["Version"],
        python=metadata["Requires-Python"].removeprefix(">="),
        repository=repository,
        owner=repository.partition("/")[0],
        file=sdist.name.replace(metadata["Version"], "${{ version }}"),
        digest=hashlib.sha256(sdist.read_bytes()).hexdigest(),
        command=command,
        entry=entry,
        run="\n".join(f"    - {line}" for line in [*list_needed(metadata, extras), *beside]),
        summary=json.dumps(metadata["Summary"], ensure_ascii=False),  # a colon ends a plain text
        licence=metadata["License-Expression"],
        files="\n".join(f"    - {file}" for file in metadata.get_all("License-File")),
    )
    path = DIST / "conda" / name / "recipe.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


if __name__ == "__main__":
    for package in PACKAGES:
        print(write_recipe(package, sys.argv[1]))
