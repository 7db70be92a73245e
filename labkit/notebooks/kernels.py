"""Start kernels for a report: forked from a process that has imported the lab already, where the system can fork."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning import LocalProvisioner

from labkit.base.errors import LabError

AVAILABLE = sys.platform == "linux"  # macOS forks, but its libraries may have started threads


class Warm:
    """The process of `labkit.notebooks.warm`, from which kernels are forked; several threads may ask it.

    `environment` is the environment of the kernels. `folder` holds the lock with which they take turns
    (`labkit.base.turns`), and what they keep under `state` (`labkit.base.kept`). LabError if it does not start.
    """

    def __init__(self, environment: dict[str, str], folder: Path, state: str):
        self._options = {"folder": str(folder), "state": state}
        self._asking = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "labkit.notebooks.warm"], env=environment, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, start_new_session=True,  # Ctrl-C is for the report, which ends this one
        )
        if self._process.stdout.readline() != "{}\n":
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(10)  # it is about to say why
            self.close()
            raise LabError("the process that a report's kernels are forked from did not start: see its message above")

    def ask(self, **request) -> dict:
        """Return the answer to a request; if this process has ended, answer that the kernel has."""
        with self._asking:
            try:
                self._process.stdin.write(json.dumps(request) + "\n")
                self._process.stdin.flush()
                return json.loads(self._process.stdout.readline())
            except (OSError, ValueError):  # it has ended, and its kernels with it
                return {"status": -signal.SIGKILL}

    def fork(self, argv: list[str], cwd: str, messages: str) -> Forked:
        """Start a kernel with arguments of ``python -m ipykernel`` in a folder, its standard error in a file."""
        answer = self.ask(fork={"argv": argv, "cwd": cwd, "messages": messages, **self._options})
        if "pid" not in answer:
            raise RuntimeError("the process that kernels are forked from has ended")
        return Forked(self, answer["pid"])

    def close(self) -> None:
        """End the process, and the kernels that still run."""
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()
        with contextlib.suppress(OSError):  # it had ended before, and a request to it was not read
            self._process.stdin.close()


class Forked:
    """A forked kernel, with those parts of `subprocess.Popen` that a kernel's manager uses."""

    stdin = stdout = stderr = None

    def __init__(self, warm: Warm, pid: int):
        self.pid, self.returncode, self._warm = pid, None, warm

    def poll(self) -> int | None:
        """Return the kernel's exit status, or None while it runs."""
        if self.returncode is None:
            self.returncode = self._warm.ask(poll=self.pid)["status"]
        return self.returncode

    def wait(self) -> int:
        """Wait until the kernel has ended; return its exit status."""
        while self.poll() is None:
            time.sleep(0.01)
        return self.returncode

    def send_signal(self, which: int) -> None:
        """Send a signal, if the kernel has not ended."""
        if self.poll() is None:
            os.kill(self.pid, which)

    def kill(self) -> None:
        """End the kernel at once."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask the kernel to end."""
        self.send_signal(signal.SIGTERM)


class Provisioner(LocalProvisioner):
    """A provisioner through which a kernel's manager starts a forked kernel in place of a new process."""

    def __init__(self, warm: Warm, **traits):
        super().__init__(**traits)
        self.warm = warm

    async def launch_kernel(self, cmd: list[str], **options) -> KernelConnectionInfo:
        """Fork a kernel: `cmd` ends with the options of ``ipykernel_launcher``."""
        argv = cmd[cmd.index("ipykernel_launcher") + 1 :]
        self.process = self.warm.fork(argv, str(options["cwd"]), options["stderr"].name)
        self.pid = self.pgid = self.process.pid
        self.cwd = Path(options["cwd"])
        return self.connection_info
