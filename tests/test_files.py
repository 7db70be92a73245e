"""Files that several processes change, the folder of the cache, the manifest, and damaged tables."""

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pandas as pd
import pytest

from hostcuda.doctor import MISSING, OK
from hostcuda.errors import EngineError
from labkit.base import manifest, paths
from labkit.base.errors import LabError
from labkit.base.own import MARK, claim_folder
from labkit.cli import doctor
from labkit.exercises import progress
from labkit.networks import images, lenet86
from labkit.notebooks import html as report
from labkit.records import published, recorded, store
from labkit.spec import devices
from labkit.spec.layers import LENET86
from recording.keep import merge_rows

pytestmark = pytest.mark.thorough("tools of the repository")

# -- one writer at a time


def test_rows_that_two_processes_record_at_once_are_all_kept(tmp_path):
    code = """
import sys
import pandas as pd
from pathlib import Path
from recording.keep import merge_rows
for i in range(20):
    merge_rows(Path(sys.argv[1]), pd.DataFrame({"key": [f"{sys.argv[2]} {i}"], "value": [i]}), ["key"])
"""
    path = tmp_path / "rows.csv"
    command = [sys.executable, "-c", code, str(path)]
    started = [
        subprocess.Popen([*command, who], env={**os.environ, "PYTHONPATH": paths.PYTHONPATH})
        for who in "ab"
    ]
    assert [process.wait() for process in started] == [0, 0]
    assert sorted(pd.read_csv(path)["key"]) == sorted(
        f"{who} {i}" for who in "ab" for i in range(20)
    )
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]  # no lock stays


def test_attempts_that_are_noted_at_once_are_all_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_PROGRESS", str(tmp_path / "progress.json"))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: progress.note("01a", f"digest {i}", met=False), range(40)))
    assert len(progress.read()["01a"]["failed"]) == 40


# -- the cache folder


def test_a_folder_that_others_can_change_is_no_cache_and_a_user_without_a_home_has_none(
    monkeypatch, tmp_path
):
    def nobody(path):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setenv("LABKIT_CACHE_DIR", str(tmp_path))
    for mode in (0o777, 0o770, 0o1777):
        tmp_path.chmod(mode)
        with pytest.raises(
            EngineError,
            match=r"can be changed by other users .*set LABKIT_CACHE_DIR to a folder of",
        ):
            paths.private_cache()
    monkeypatch.delenv("LABKIT_CACHE_DIR")
    monkeypatch.setattr(paths.Path, "expanduser", nobody)
    with pytest.raises(EngineError, match="no home folder: set LABKIT_CACHE_DIR"):
        paths.cache_dir()


# -- the manifest of data/

READERS = {
    "results/nvidia-h200.csv": lambda saved: saved.op_ms(4),
    "cudnn/nvidia-h200.csv": lambda saved: saved.cudnn(),
    "counters/nvidia-h200.csv": lambda saved: saved.counters(4),
    "sweeps/nvidia-h200.csv": lambda saved: saved.sweep(),
    "streams/nvidia-h200.csv": lambda saved: saved.streams(),
    "streams/timelines/nvidia-h200.csv": lambda saved: saved.timelines(),
    "framework/nvidia-h200.csv": lambda saved: saved.framework(),
    "network/nvidia-h200.csv": lambda saved: saved.network(),
    "network/counters/nvidia-h200.csv": lambda saved: saved.network_counters(),
    "versus/counters/nvidia-h200.csv": lambda saved: saved.versus_counters("lenet86 layer 2"),
    "training/nvidia-h200.csv": lambda saved: saved.training.launch_us,
    "published/op_times.csv": lambda saved: published.published(),
    "published/training.csv": lambda saved: published.published_training(),
    "devices.toml": lambda saved: devices._read_listed(),
    "digits-images-idx3-ubyte.gz": lambda saved: images.dataset(),
    "weights/lenet86-digits.npz": lambda saved: lenet86.load_weights(),
    "weights/lenet86-digits.json": lambda saved: lenet86.provenance(),
}
DAMAGES = {
    "30 bytes cut": lambda content: content[:-30],
    "half": lambda content: content[: len(content) // 2],
    "half of the lines": lambda content: content[: content.rfind(b"\n", 0, len(content) // 2) + 1],
    "empty": lambda content: b"",
    "CRLF": lambda content: content.replace(b"\n", b"\r\n"),
    "a conflict": lambda content: content + b"<<<<<<< HEAD\n=======\n>>>>>>> theirs\n",
    "another file": lambda content: (paths.data_dir() / "versus" / "nvidia-h200.csv").read_bytes(),
    "a digit": lambda content: re.sub(
        rb"\d(?=\D*\Z)", lambda digit: b"%d" % (9 - int(digit[0])), content, count=1
    ),
}


def test_what_is_shipped_is_what_the_manifest_says():
    assert manifest.problems() == []
    assert {*READERS} <= {*manifest.digests(paths.data_dir())}


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """Copy data/ and let the copy take its place."""
    folder = shutil.copytree(paths.data_dir(), tmp_path / "data")
    for module in (manifest, recorded, published, devices, images, lenet86):
        monkeypatch.setattr(module, "data_dir", lambda: folder)
    return folder


@pytest.mark.parametrize("name", READERS)
def test_what_is_damaged_is_not_believed(copied, name):
    path, good = copied / name, (copied / name).read_bytes()
    READERS[name](recorded.recorded("H200"))
    for change in DAMAGES.values():
        path.write_bytes(change(good))
        if path.read_bytes() == good:  # a line end in a compressed file
            continue
        with pytest.raises(
            LabError,
            match=rf"{path} is damaged.*`git .* checkout -- data/{name}`.*recording manifest",
        ):
            READERS[name](recorded.recorded("H200"))
    assert manifest.problems(copied) == [f"{name} is damaged"]
    path.unlink()
    assert manifest.problems(copied) == [f"{name} is missing"]


def test_what_records_writes_its_line(copied):
    merge_rows(
        copied / "cudnn" / "mine.csv", pd.DataFrame({"device": ["mine"], "ms": [1.5]}), ["device"]
    )
    merge_rows(
        copied / "cudnn" / "mine.csv", pd.DataFrame({"device": ["yours"], "ms": [2.5]}), ["device"]
    )
    assert manifest.problems(copied) == []
    assert len(store.read_as_stored(copied / "cudnn" / "mine.csv")) == 2
    path = copied / "cudnn" / "by_hand.csv"
    path.write_text("device,ms\nmine,1\n")
    with pytest.raises(LabError, match="by_hand"):
        store.read_as_stored(path)
    assert manifest.problems(copied) == ["cudnn/by_hand.csv is not in MANIFEST.sha256"]
    shipped = doctor._check_shipped()
    assert shipped.state == MISSING and "cudnn/by_hand.csv is not in MANIFEST" in shipped.found
    assert "checkout -- data" in shipped.remedy
    manifest.renew(copied)
    assert store.read_as_stored(path)["ms"].tolist() == [1]
    assert doctor._check_shipped().state == OK
    damaged = copied / "MANIFEST.sha256"
    damaged.write_text("<<<<<<< HEAD\n" + damaged.read_text())
    with pytest.raises(
        LabError, match=r"MANIFEST\.sha256 is damaged: line 1 .*checkout -- data/MANIFEST\.sha256"
    ):
        store.read_as_stored(path)


def test_a_folder_without_a_manifest_is_read(tmp_path):
    """Such as a reader's own in place of `data/`: only its form says what is right in it."""
    path = tmp_path / "results" / "nvidia-h200.csv"
    path.parent.mkdir()
    table = (paths.data_dir() / "results" / "nvidia-h200.csv").read_bytes()
    path.write_bytes(table)
    assert recorded.recorded("H200", tmp_path).op_ms(4, LENET86[1]) > 0
    for damaged in (
        table[:-30],
        table + b"=======\n",
        b"",
        table.partition(b"\n")[0] + b"\n",
        b"a,b\n1,\0\0\0\n",
        b"a,b\n1,\xff\n",
        b"a,b\n1,2\n3,4,5\n",
    ):
        path.write_bytes(damaged)
        for read in (lambda: recorded.recorded("H200", tmp_path), lambda: store.read(path)):
            with pytest.raises(LabError, match=rf"{path} is damaged: .*Restore it with git"):
                read()


# -- folders that a command writes to


def test_a_command_writes_into_its_own_folder_or_an_empty_one(tmp_path):
    claim_folder(tmp_path / "new", "labkit site")
    (tmp_path / "new" / "index.html").write_text("written")
    claim_folder(tmp_path / "new", "labkit site", [tmp_path / "new" / "index.html"])
    claim_folder(tmp_path / "new", "labkit site", [tmp_path / "new" / "in" / "other.html"])
    assert (tmp_path / "new" / MARK).read_text() == "labkit site\nin/other.html\nindex.html\n"
    for folder, command in (("new", "labkit report"), ("mine", "labkit site")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "index.html").write_text("mine")
        with pytest.raises(
            LabError, match=f"{folder} has files that `{command}` did not write: index.html"
        ):
            claim_folder(tmp_path / folder, command)
    with pytest.raises(EngineError, match="cannot write to"):
        claim_folder(tmp_path / "mine" / "index.html", "labkit site")
    (tmp_path / "empty").mkdir()
    with ThreadPoolExecutor(8) as pool:  # at once
        empty = tmp_path / "empty"
        list(pool.map(lambda name: claim_folder(empty, "labkit site", [empty / name]), "abcdefgh"))
    assert (tmp_path / "empty" / MARK).read_text().split() == ["labkit", "site", *"abcdefgh"]


def test_a_report_that_is_stopped_leaves_no_empty_folder(tmp_path, monkeypatch):
    def stop(notebooks, *_):
        yield from ()
        raise KeyboardInterrupt

    monkeypatch.setattr(report.side_by_side, "run", stop)
    (tmp_path / "mine").mkdir()
    for name in ("new", "mine"):
        with pytest.raises(KeyboardInterrupt):
            report.make(["01"], tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
def test_make_clean_removes_what_was_written(tmp_path):
    shutil.copy(paths.PACKAGE.parent / "Makefile", tmp_path)
    for name in (
        "reports/index.html",
        "reports/practice/P1.html",
        "reports/notes.txt",
        "build/student/mine.cu",
        "build/site/index.html",
        "notebooks/.ipynb_checkpoints/01.ipynb",
        ".lab/cache/x",
        "outside",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("text")
    for folder in ("reports", "build/site"):
        (tmp_path / folder / MARK).write_text("labkit\n../outside\nindex.html\npractice/P1.html\n")
    subprocess.run(["make", "clean"], cwd=tmp_path, check=True)
    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {
        "Makefile",
        "outside",
        "reports/notes.txt",
        "build/student/mine.cu",
        "notebooks/.ipynb_checkpoints/01.ipynb",
    }
    assert not (tmp_path / "build" / "site").exists()
