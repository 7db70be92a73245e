"""A driver of Debian's Firefox by Marionette, its own protocol: not every machine can have Playwright's Firefox."""

import json
import os
import socket
import subprocess
import time
from pathlib import Path

KEYS = {"Enter": "\ue007", "Shift": "\ue008", "Control": "\ue009", "Alt": "\ue00a", "Tab": "\ue004"}


class Firefox:
    """A window without a screen.

    Parameters
    ----------
    executable : str
    folder : Path
        An empty one, for its profile.
    """

    def __init__(self, executable: str, folder: Path):
        (folder / "user.js").write_text('user_pref("marionette.port", 0);\n')  # any that is free
        command = [
            executable,
            "--headless",
            "--marionette",
            "--no-remote",
            "--profile",
            str(folder),
            "--remote-allow-system-access",  # for `show`
        ]
        with open(folder / "log", "w") as log:
            self.process = subprocess.Popen(
                command, env=os.environ | {"HOME": str(folder)}, stdout=log, stderr=log
            )
        port, started = folder / "MarionetteActivePort", time.monotonic()
        while not (port.is_file() and port.read_text()):
            if self.process.poll() is not None or time.monotonic() - started > 60:
                raise RuntimeError(
                    f"Firefox does not start: {(folder / 'log').read_text()[-2000:]}"
                )
            time.sleep(0.1)
        self.connection = socket.create_connection(("127.0.0.1", int(port.read_text())))
        self.stream, self.asked = self.connection.makefile("rb"), 0
        self.version = self._answer()
        self.session = self._ask("WebDriver:NewSession", capabilities={})["capabilities"]
        self._ask("WebDriver:SetTimeouts", script=300_000, pageLoad=60_000)

    def goto(self, address: str) -> None:
        """Open a page."""
        self._ask("WebDriver:Navigate", url=address)

    def evaluate(self, function: str, argument: object = None) -> object:
        """Return what a function in JavaScript returns, which may be a promise."""
        script = (
            f"const [argument, done] = arguments; Promise.resolve(({function})(argument))"
            ".then(value => done([value]), error => done([null, String(error)]))"
        )
        value, *error = self._ask(
            "WebDriver:ExecuteAsyncScript", script=script, args=[argument], sandbox=None
        )["value"]
        if error:
            raise RuntimeError(error[0])
        return value

    def press(self, *keys: str) -> None:
        """Press keys together, each a letter or a name of WebDriver's, "Control"; then release them."""
        codes = [KEYS.get(key, key) for key in keys]
        down = [{"type": "keyDown", "value": code} for code in codes]
        up = [{"type": "keyUp", "value": code} for code in reversed(codes)]
        action = {"type": "key", "id": "keyboard", "actions": down + up}
        self._ask("WebDriver:PerformActions", actions=[action])

    def show(self, theme: str, width: int, height: int = 900) -> None:
        """Let pages prefer a theme, "light" or "dark", and the open one be as wide: a wider window is zoomed."""
        window = self._ask("WebDriver:SetWindowRect", width=width, height=height)
        number = ("dark", "light").index(theme)
        scale = 60 / min(60, 60 * width // window["width"])  # Firefox rounds pixels to sixtieths
        self._ask("Marionette:SetContext", value="chrome")
        self.evaluate(f"""() => {{
            Services.prefs.setIntPref("layout.css.prefers-color-scheme.content-override", {number});
            Services.wm.getMostRecentWindow("navigator:browser").ZoomManager.zoom = {scale};
        }}""")
        self._ask("Marionette:SetContext", value="content")

    def close(self) -> None:
        """End the browser."""
        self.connection.close()
        self.process.terminate()
        self.process.wait(30)

    def _ask(self, command, **fields):
        """Send a command of the protocol Marionette; return its result. Raises RuntimeError with Firefox's message."""
        self.asked += 1
        text = json.dumps([0, self.asked, command, fields]).encode()
        self.connection.sendall(b"%d:%s" % (len(text), text))
        _, _, error, result = self._answer()
        if error:
            raise RuntimeError(error["message"])
        return result

    def _answer(self):
        """Return the next message: its length, a colon, and so many bytes of JSON."""
        length = b""
        while (byte := self.stream.read(1)) != b":":
            length += byte
        return json.loads(self.stream.read(int(length)))
