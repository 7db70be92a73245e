"""What a release is made of: addresses in its READMEs, recipes, the entry of the server, the paper (3 s)."""

import importlib.util
import json
import re
import shutil
import tarfile
from pathlib import Path

import pytest
import yaml

import labkit

pytestmark = pytest.mark.thorough("tools of the repository")

ROOT = Path(labkit.__file__).resolve().parent.parent


def load(name):
    """Return a program of .ci as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / ".ci" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_release_names_its_address(tmp_path, monkeypatch):
    """On the index a README has no files beside it, and the registry of servers asks for the owner."""
    address = load("address")
    for folder in address.PROJECTS:
        (tmp_path / folder).mkdir(exist_ok=True)
        for name in ("README.md", "pyproject.toml"):
            shutil.copy(ROOT / folder / name, tmp_path / folder / name)
    shutil.copy(ROOT / "engine/server.json", tmp_path / "engine")
    monkeypatch.setattr(address, "ROOT", tmp_path)
    address.main("someone/lab", "v2.0.0")
    for folder in address.PROJECTS:
        before, text = ((at / folder / "README.md").read_text() for at in (ROOT, tmp_path))
        links = re.findall(r'(?:\]\(|src="|srcset=")([^)"]+)', text)
        assert [link for link in links if not link.startswith(("https://", "#"))] == []
        for there, now in zip(
            re.findall(r"\]\(([^)]+\.md)\)", before),
            re.findall(r"\]\(([^)]+\.md)\)", text),
            strict=True,
        ):
            path = now.removeprefix("https://github.com/someone/lab/blob/v2.0.0/")
            assert (ROOT / path).samefile(ROOT / folder / there)
        urls = re.findall(
            r"^Repository = (.*)$", (tmp_path / folder / "pyproject.toml").read_text(), re.M
        )
        assert urls == ['"https://github.com/someone/lab"']
    server = json.loads((tmp_path / "engine/server.json").read_text())
    assert server["name"] == "io.github.someone/hostcuda"
    assert f"mcp-name: {server['name']}" in (tmp_path / "engine/README.md").read_text()
    assert server["repository"]["url"] == "https://github.com/someone/lab"
    assert len(server["description"]) <= 100  # what the registry takes


def test_a_recipe_says_what_the_sdist_says(tmp_path, monkeypatch):
    recipe = load("recipe")
    monkeypatch.setattr(recipe, "DIST", tmp_path)
    (tmp_path / "PKG-INFO").write_text(
        "Metadata-Version: 2.4\nName: hostcuda\nVersion: 2.0.0\nSummary: Runs it: anywhere\n"
        "License-Expression: MIT\nLicense-File: LICENSE\nRequires-Python: >=3.11\n"
        'Requires-Dist: numpy<3,>=2.0.2\nRequires-Dist: matplotlib>=3; extra == "notebooks"\n'
    )
    with tarfile.open(tmp_path / "hostcuda-2.0.0.tar.gz", "w:gz") as sdist:
        sdist.add(tmp_path / "PKG-INFO", "hostcuda-2.0.0/PKG-INFO")
    read = yaml.safe_load(recipe.write_recipe("hostcuda", "someone/lab").read_text())
    assert read["requirements"]["run"][2:] == ["numpy >=2.0.2,<3", "cxx-compiler"]
    assert read["about"]["summary"] == "Runs it: anywhere"
    url = read["source"]["url"].replace("${{ version }}", read["context"]["version"])
    assert url == "https://github.com/someone/lab/releases/download/v2.0.0/hostcuda-2.0.0.tar.gz"


def test_the_papers_figures_are_those_of_the_documents():
    """And each source that it cites is in its bibliography, which has no other."""
    paper = (ROOT / "paper/paper.md").read_text("utf-8")
    words = " ".join(paper.split())
    counters = (ROOT / "data/counters.md").read_text("utf-8")
    for kind, said in {
        "global loads and stores": "Global memory: {1} of {0} counts of loads",
        "shared memory, accesses as written": "compiles each access as it is written: {1} of {0} counts agree",
        "shared memory, accesses joined by nvcc": "accesses into one: only {1} of {0} counts agree",
    }.items():
        counted = re.search(rf"^\| {kind} \| (\d+) \| (\d+) \|", counters, re.M).groups()
        assert said.format(*(f"{int(number):,}" for number in counted)) in words
    found = re.findall(
        r"^\| (?:CPU engine|compute-sanitizer) \| (\d+) of (\d+) \|",
        (ROOT / "engine/docs/findings.md").read_text("utf-8"),
        re.M,
    )
    (ours, bugs), (theirs, _) = found
    assert (
        f"we wrote {bugs} kernels with one bug each. The engine finds {ours} of {bugs} planted bugs at their lines. "
        f"NVIDIA's compute-sanitizer finds {theirs} of them. These bugs are our own, and belong to 31 kinds"
        in words
    )
    results = " ".join((ROOT / "docs/results.md").read_text("utf-8").split())
    for ratio in ("3.8 to 9.2 times", "2.4 to 5.5 times"):
        assert ratio in words and ratio in results
    cited = set(re.findall(r"@(\w+)", paper))
    assert cited == set(
        re.findall(r"^@\w+\{(\w+),", (ROOT / "paper/paper.bib").read_text("utf-8"), re.M)
    )
