"""Files that several processes change, the folder of the cache, and damaged tables."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pandas as pd
import pytest

from hostcuda.errors import EngineError
from labkit.base import paths
from labkit.exercises import progress
from labkit.records import store, sweeps

# -- one writer at a time


def test_rows_that_two_processes_record_at_once_are_all_kept(tmp_path):
    code = """
import sys
import pandas as pd
from pathlib import Path
from labkit.records import store
for i in range(20):
    store.merge(Path(sys.argv[1]), pd.DataFrame({"key": [f"{sys.argv[2]} {i}"], "value": [i]}), ["key"])
"""
    path = tmp_path / "rows.csv"
    command = [sys.executable, "-c", code, str(path)]
    started = [subprocess.Popen([*command, who], env={**os.environ, "PYTHONPATH": paths.PYTHONPATH}) for who in "ab"]
    assert [process.wait() for process in started] == [0, 0]
    assert sorted(pd.read_csv(path)["key"]) == sorted(f"{who} {i}" for who in "ab" for i in range(20))
    assert [each.name for each in tmp_path.iterdir()] == ["rows.csv"]  # no lock stays


def test_attempts_that_are_noted_at_once_are_all_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_PROGRESS", str(tmp_path / "progress.json"))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: progress.note("01a", f"digest {i}", met=False), range(40)))
    assert len(progress.read()["01a"]["failed"]) == 40


# -- the cache folder


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777])
def test_a_folder_that_others_can_change_is_no_cache(monkeypatch, tmp_path, mode):
    tmp_path.chmod(mode)
    monkeypatch.setenv("LABKIT_CACHE_DIR", str(tmp_path))
    with pytest.raises(EngineError, match=r"can be changed by other users .*set LABKIT_CACHE_DIR to a folder of"):
        paths.private_cache()


def test_a_user_without_a_home_folder(monkeypatch):
    def nobody(path):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("LABKIT_CACHE_DIR")
    monkeypatch.setattr(paths.Path, "expanduser", nobody)
    with pytest.raises(EngineError, match="no home folder: set LABKIT_CACHE_DIR"):
        paths.cache_dir()


# -- damaged tables


@pytest.mark.parametrize("read", [store.read, lambda path: sweeps.read_sweep("device", path.parents[1])])
@pytest.mark.parametrize("content", [b"", b"a,b\n1,\0\0\0\n", b"a,b\n1,\xff\n", b"a,b\n1,2\n3,4,5\n"])
def test_a_damaged_table_is_named(tmp_path, content, read):
    path = tmp_path / "sweeps" / "device.csv"
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(EngineError, match=rf"{path} is damaged: .*Restore it with git"):
        read(path)
