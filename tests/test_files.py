"""Files that several processes change, folders of one user, and what a killed process leaves."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd
import pytest

from labkit.base import files, paths, temporary
from labkit.base.errors import LabError
from labkit.exercises import progress
from labkit.records import store, sweeps

ROOT = Path(__file__).resolve().parents[1]


def python(code, **environment):
    """A process that runs `code`."""
    return subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
                            stdout=subprocess.PIPE, text=True)  # fmt: skip


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
    started = [subprocess.Popen([*command, who], env={**os.environ, "PYTHONPATH": str(ROOT)}) for who in "ab"]
    assert [process.wait() for process in started] == [0, 0]
    assert sorted(pd.read_csv(path)["key"]) == sorted(f"{who} {i}" for who in "ab" for i in range(20))
    assert [each.name for each in tmp_path.iterdir()] == ["rows.csv"]  # no lock stays


def test_attempts_that_are_noted_at_once_are_all_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_PROGRESS", str(tmp_path / "progress.json"))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: progress.note("01a", f"digest {i}", met=False), range(40)))
    assert len(progress.read()["01a"]["failed"]) == 40


def test_a_lock_follows_no_link_and_changes_no_file(tmp_path):
    (tmp_path / "precious").write_text("text")
    (tmp_path / ".rows.csv.lock").symlink_to(tmp_path / "precious")
    with files.locked(tmp_path / "rows.csv"):
        pass
    assert (tmp_path / "precious").read_text() == "text"


# -- the cache folder


def test_the_cache_folder_is_for_its_owner_alone(tmp_path):
    assert files.private(tmp_path / "new" / "cache").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777])
def test_a_folder_that_others_can_change_is_no_cache(tmp_path, mode):
    tmp_path.chmod(mode)
    with pytest.raises(LabError, match=r"can be changed by other users .*set LABKIT_CACHE_DIR to a folder of your own"):
        files.private(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
@pytest.mark.parametrize("link", [False, True])
def test_a_folder_or_link_of_another_user_is_no_cache(tmp_path, link):
    folder = tmp_path / "theirs"
    if link:
        (tmp_path / "mine").mkdir()
        folder.symlink_to(tmp_path / "mine")
    else:
        folder.mkdir()
    os.chown(folder, 65534, 65534, follow_symlinks=False)
    with pytest.raises(LabError, match="belongs to another user"):
        files.private(folder)


def test_a_user_without_a_home_folder(monkeypatch):
    def nobody(path):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("LABKIT_CACHE_DIR")
    monkeypatch.setattr(paths.Path, "expanduser", nobody)
    with pytest.raises(LabError, match="no home folder: set LABKIT_CACHE_DIR"):
        paths.cache_dir()


# -- temporary folders


def test_the_folders_of_a_killed_process_go_with_the_next_one(tmp_path):
    code = """
import time
from labkit.base import temporary
from labkit.cpu import cache
print(temporary.make()[0])
print(cache.scratch(), flush=True)
time.sleep(60)
"""
    killed, alive = (python(code, TMPDIR=str(tmp_path)) for _ in range(2))
    folders = {process: [Path(process.stdout.readline().strip()) for _ in range(2)] for process in (killed, alive)}
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    (tmp_path / "labkit-of-another-kind").mkdir()
    temporary.remove_left_over.__wrapped__(str(tmp_path))
    assert [each.exists() for each in folders[killed]] == [False, False]
    assert [each.exists() for each in folders[alive]] == [True, True]
    assert (tmp_path / "labkit-of-another-kind").exists()
    alive.kill()
    alive.communicate()
    killed.communicate()


def test_a_temporary_folder_ends_with_its_block():
    with temporary.folder() as folder:
        (folder / "file").touch()
    assert not folder.exists()


def test_many_processes_at_once_leave_each_other_their_folders(tmp_path):
    """Each removes what is left over while the others make theirs."""
    code = """
import functools
from labkit.base import temporary
for _ in range(200):
    temporary.remove_left_over.cache_clear()
    with temporary.folder() as folder:
        (folder / "file").write_text("")
"""
    started = [python(code, TMPDIR=str(tmp_path)) for _ in range(3)]
    assert [process.wait() for process in started] == [0, 0, 0]
    assert [*tmp_path.iterdir()] == []
    for process in started:
        process.communicate()


# -- damaged tables


@pytest.mark.parametrize("read", [store.read, lambda path: sweeps.read_sweep("device", path.parents[1])])
@pytest.mark.parametrize("content", [b"", b"a,b\n1,\0\0\0\n", b"a,b\n1,\xff\n", b"a,b\n1,2\n3,4,5\n"])
def test_a_damaged_table_is_named(tmp_path, content, read):
    path = tmp_path / "sweeps" / "device.csv"
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(LabError, match=rf"{path} is damaged: .*Restore it with git"):
        read(path)
