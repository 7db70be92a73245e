"""The edition for Colab: it installs the lab first, and its links lead somewhere from there."""

import re
import shlex

import nbformat
import pytest

from labkit.base.errors import LabError
from labkit.notebooks import colab, execute

pytestmark = pytest.mark.thorough("pages as they are published")

ROOT = execute.folder().parent


@pytest.fixture(scope="module")
def edition(tmp_path_factory):
    out = tmp_path_factory.mktemp("colab")
    return {path.relative_to(out).as_posix(): nbformat.read(path, 4) for path in colab.write_edition(out, "some/lab")}


def test_every_notebook_is_there_and_only_begins_differently(edition):
    assert edition.keys() == {path.relative_to(ROOT).as_posix() for path in execute.find()}
    for name, nb in edition.items():
        nbformat.validate(nb)
        ours = execute.read(ROOT / name).nb
        assert [cell.source for cell in nb.cells[2:] if cell.cell_type == "code"] == \
            [cell.source for cell in ours.cells[1:] if cell.cell_type == "code"]
        assert nb.cells[0].source.startswith(f"[![Open In Colab]({colab._BADGE})]({colab.address('some/lab', name)})")
        (install,) = [line for line in nb.cells[1].source.splitlines() if "github" in line]
        assert shlex.split(install) == [
            "%pip", "install", "--quiet", "hostcuda @ git+https://github.com/some/lab#subdirectory=engine",
            "cuda-convolution-lab @ git+https://github.com/some/lab",
        ]
        assert (ROOT / "engine" / "pyproject.toml").is_file()  # what "subdirectory" names


def test_links_lead_to_files_of_the_repository(edition):
    count = 0
    for name, nb in edition.items():
        for cell in nb.cells:
            if cell.cell_type == "markdown":
                for link in re.findall(r"\]\(([^)]*)\)", cell.source):
                    assert re.match("https?://|#", link), f"{name}: {link} leads nowhere from Colab"
                    match = re.match(r"https://[\w.]+/(?:github/)?some/lab/blob/(colab|HEAD)/([^#]*)", link)
                    if match:
                        count += 1
                        assert (ROOT / match[2]).is_file(), f"{name}: {link}"
                        assert (match[1] == "colab") == match[2].endswith(".ipynb")
    assert count > 3 * len(edition)


@pytest.mark.parametrize("repository", ["lab", "https://github.com/some/lab", 'some/lab"; rm', ""])
def test_what_names_no_repository_is_refused(repository, tmp_path):
    with pytest.raises(LabError, match="owner/name"):
        colab.write_edition(tmp_path / "out", repository)
    assert not (tmp_path / "out").exists()
