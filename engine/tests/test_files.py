"""Files and folders: locks, folders of one user, and what a killed process leaves."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from hostcuda import files, temporary
from hostcuda.errors import EngineError

pytestmark = pytest.mark.core("what every cached module relies on")


def test_a_lock_follows_no_link_and_changes_no_file(tmp_path):
    (tmp_path / "precious").write_text("text")
    (tmp_path / ".rows.csv.lock").symlink_to(tmp_path / "precious")
    with files.locked(tmp_path / "rows.csv"):
        pass
    assert (tmp_path / "precious").read_text() == "text"


def test_a_process_that_was_forked_meanwhile_keeps_no_lock(tmp_path):
    def wait():
        with files.locked(tmp_path / "entry"):
            got.set()

    got, thread = threading.Event(), threading.Thread(target=wait)
    with files.locked(tmp_path / "entry"):
        thread.start()
        time.sleep(0.3)  # it has opened the file, and waits
        child = os.fork()
        if not child:
            time.sleep(60)
            os._exit(0)
    in_time = got.wait(20)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    thread.join()
    assert in_time


def test_the_cache_folder_is_for_its_owner_alone(tmp_path):
    assert files.private(tmp_path / "new" / "cache").stat().st_mode & 0o777 == 0o700


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
    with pytest.raises(EngineError, match="belongs to another user"):
        files.private(folder)


def python(code, **environment):
    """Start a process that runs `code`."""
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_the_folders_of_a_killed_process_go_with_the_next_one(tmp_path):
    code = """
import time
from hostcuda import temporary
from hostcuda.host import cache
print(temporary.make()[0])
print(cache.scratch(), flush=True)
time.sleep(60)
"""
    killed, alive = (python(code, TMPDIR=str(tmp_path)) for _ in range(2))
    folders = {
        process: [Path(process.stdout.readline().strip()) for _ in range(2)]
        for process in (killed, alive)
    }
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    (tmp_path / "labkit-of-another-kind").mkdir()
    temporary.remove_left_over.__wrapped__(str(tmp_path))
    assert [folder.exists() for folder in folders[killed]] == [False, False]
    assert [folder.exists() for folder in folders[alive]] == [True, True]
    assert (tmp_path / "labkit-of-another-kind").exists()
    alive.kill()
    alive.communicate()
    killed.communicate()


def test_a_folder_that_a_program_has_filled_is_removed(tmp_path):
    """Deeper than Python recurses, and closed to its owner."""
    deep = tmp_path / "filled"
    script = (
        "for i in $(seq 1200); do mkdir d && cd d; done; cd - > /dev/null; mkdir x; chmod 000 x"
    )
    deep.mkdir()
    subprocess.run(["bash", "-c", script], cwd=deep, check=True)
    temporary.remove(deep)
    assert not deep.exists()


def test_a_temporary_folder_ends_with_its_block():
    with temporary.folder() as folder:
        (folder / "file").touch()
    assert not folder.exists()


def test_many_processes_at_once_leave_each_other_their_folders(tmp_path):
    """Each removes what is left over while the others make theirs."""
    code = """
import functools
from hostcuda import temporary
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
