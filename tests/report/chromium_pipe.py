"""A real browser for tests: headless Chromium over its DevTools pipe, with the standard library.

Chromium reads commands from file descriptor 3 and answers on 4; messages are JSON that ends in a
zero byte. An answer carries the number of its command, an event carries none.
"""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless=new",
    "--no-sandbox",  # tests often run as root in a container
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
# Chromium wants its ends of the pipes at 3 and 4; a process of its own can put them there.
LAUNCHER = "import os, sys; os.dup2({0}, 3); os.dup2({1}, 4); os.execv(sys.argv[1], sys.argv[1:])"
PATIENCE = 30.0  # seconds for any one answer


def find_chromium() -> str | None:
    """Returns the path of a Chromium, or None."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Chromium:
    """One browser process; a context manager."""

    def __init__(self, executable: str):
        self._profile = tempfile.mkdtemp(prefix="chromium-")
        theirs_in, self._out = _pipe()
        self._in, theirs_out = _pipe()
        self._unread = b""
        self._last_id = 0
        self.events: list[dict[str, Any]] = []
        launcher = [sys.executable, "-I", "-S", "-c", LAUNCHER.format(theirs_in, theirs_out)]
        self._process = subprocess.Popen(
            [*launcher, executable, *FLAGS, f"--user-data-dir={self._profile}", "about:blank"],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)

    def __enter__(self) -> "Chromium":
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.send("Browser.close")
            self._process.wait(timeout=10)
        except (RuntimeError, OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        os.close(self._out)
        shutil.rmtree(self._profile, ignore_errors=True)

    def send(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Sends a command and waits for its answer; events that come before it are kept."""
        self._last_id += 1
        message: dict[str, Any] = {"id": self._last_id, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self._receive(deadline, method)
            if answer.get("id") == self._last_id:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def wait_for(self, event: str, session: str) -> None:
        """Waits until an event of that name has come."""
        deadline = time.monotonic() + PATIENCE
        while not any(
            known.get("method") == event and known.get("sessionId") == session
            for known in self.events
        ):
            self.events.append(self._receive(deadline, event))

    def open_tab(self, **view: Any) -> "Tab":
        """Opens an empty tab; the arguments are those of `Tab.resize`."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        tab = Tab(self, target, session)
        tab.resize(**view)
        return tab

    def _receive(self, deadline: float, awaited: str) -> dict[str, Any]:
        while b"\0" not in self._unread:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._in], [], [], left)[0]:
                raise RuntimeError(f"Chromium did not answer within {PATIENCE:.0f} s: {awaited}")
            piece = os.read(self._in, 1 << 20)
            if not piece:
                raise RuntimeError(f"Chromium ended while {awaited} was awaited")
            self._unread += piece
        message, _, self._unread = self._unread.partition(b"\0")
        return json.loads(message)


class Tab:
    """A page in the browser."""

    def __init__(self, browser: Chromium, target: str, session: str):
        self._browser = browser
        self._target = target
        self._session = session
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Sends a command to this page."""
        return self._browser.send(method, self._session, **params)

    def close(self) -> None:
        """Closes the tab."""
        self._browser.send("Target.closeTarget", targetId=self._target)

    def resize(self, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Sets the window's size, and whether the reader prefers dark pages."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def load(self, path: Path) -> None:
        """Opens a file and waits until all of it is there."""
        self.send("Page.navigate", url=path.as_uri())
        self._browser.wait_for("Page.loadEventFired", self._session)

    def eval(self, expression: str) -> Any:
        """Returns the value of a JavaScript expression."""
        answer = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def click(self, selector: str) -> None:
        """Clicks with the mouse on the middle of the first element that matches."""
        x, y = self.eval(
            f"(() => {{ const element = document.querySelector({json.dumps(selector)});"
            "element.scrollIntoView({block: 'center'});"
            "const box = element.getBoundingClientRect();"
            "return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key: str, *, code: int, text: str = "") -> None:
        """Presses a key on whatever has the focus."""
        for kind in ("keyDown", "keyUp"):
            self.send(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                windowsVirtualKeyCode=code,
                **({"text": text} if text and kind == "keyDown" else {}),
            )

    def type(self, text: str) -> None:
        """Types into whatever has the focus."""
        self.send("Input.insertText", text=text)

    def screenshot(self, *, whole_page: bool = False) -> bytes:
        """Returns a PNG of what is seen, or of the whole page."""
        answer = self.send("Page.captureScreenshot", captureBeyondViewport=whole_page)
        return base64.b64decode(answer["data"])

    def complaints(self) -> list[str]:
        """Returns what the page logged, warned of or threw."""
        kinds = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [json.dumps(event["params"]) for event in self._events(*kinds)]

    def requests(self) -> list[str]:
        """Returns the addresses that the page asked for, its own included."""
        sent = self._events("Network.requestWillBeSent")
        return [event["params"]["request"]["url"] for event in sent]

    def _events(self, *methods: str) -> list[dict[str, Any]]:
        self.eval("0")  # whatever happened before has been reported once this is answered
        return [
            event
            for event in self._browser.events
            if event.get("sessionId") == self._session and event.get("method") in methods
        ]


def _pipe() -> tuple[int, int]:
    """Makes a pipe well above the descriptors 3 and 4, so that none is overwritten by another."""
    low = os.pipe()
    high = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in low)
    for end in low:
        os.close(end)
    return high[0], high[1]
