"""A real browser for tests.

Headless Chromium driven through its own pipe, no driver and no library needed.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def find_chromium() -> str | None:
    """Return the browser's path; None where there is none. MINIDYN_CHROMIUM names one."""
    named = os.environ.get("MINIDYN_CHROMIUM")
    return named or next((path for path in map(shutil.which, NAMES) if path), None)


CUT = """[...document.querySelectorAll('svg text')].filter(t => t.checkVisibility() && t.textContent).filter(t => {
  const inner = t.getBoundingClientRect(), outer = t.ownerSVGElement.getBoundingClientRect();
  return inner.right > outer.right + 1 || inner.left < outer.left - 1 || inner.bottom > outer.bottom + 1;
}).map(t => t.textContent)"""  # noqa: E501
"""Labels of figures that do not fit into them."""


class Browser:
    """One page of a headless Chromium.

    What it logs, requests and complains about is kept in `events`.
    """

    def __init__(self, folder: Path, patience: float = 60.0) -> None:
        path = find_chromium()
        assert path is not None
        read_ours, write_theirs = os.pipe()
        read_theirs, write_ours = os.pipe()
        flags = [
            "--headless=new",
            "--no-sandbox",  # containers have no user namespaces; pages here are our own
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-extensions",
            "--disable-background-networking",
            "--disable-component-update",
            "--no-first-run",
            "--no-default-browser-check",
            "--hide-scrollbars",
            "--remote-debugging-pipe",
            f"--user-data-dir={folder}",
        ]
        # the browser reads commands from descriptor 3 and writes answers to 4; a shell puts them
        # there
        command = 'exec 3<&"$1" 4>&"$2"; shift 2; exec "$@"'
        self.process = subprocess.Popen(
            [
                "bash",
                "-c",
                command,
                "chromium",
                str(read_theirs),
                str(write_theirs),
                path,
                *flags,
                "about:blank",
            ],
            pass_fds=(read_theirs, write_theirs),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_theirs)
        os.close(write_theirs)
        self._in, self._out = read_ours, write_ours
        self._patience = patience
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network", "Audits", "Accessibility"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command of the DevTools protocol and return its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive(self._patience)
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return dict(answer["result"])
            self.events.append(answer)

    def open(self, page: Path, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Show a file and wait until it is loaded and its script has run."""
        self.resize(width, height)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.events.clear()
        self.call("Page.navigate", url=page.resolve().as_uri())
        deadline = time.monotonic() + self._patience
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._receive(deadline - time.monotonic()))

    def resize(self, width: int, height: int = 900) -> None:
        """Make the window another size; below 600 pixels it is a phone."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression in the page; promises are waited for."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def key(self, key: str, code: int = 0, text: str = "") -> None:
        """Press and release a key."""
        named: dict[str, Any] = {"key": key, "windowsVirtualKeyCode": code}
        self.call(
            "Input.dispatchKeyEvent", type="keyDown", **named, **({"text": text} if text else {})
        )
        self.call("Input.dispatchKeyEvent", type="keyUp", **named)

    def mouse(self, kind: str, x: float, y: float, buttons: int = 0) -> None:
        """Move, press ("mousePressed") or release the mouse at a place."""
        held = {"button": "left", "clickCount": 1} if kind != "mouseMoved" else {}
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, buttons=buttons, **held)

    def screenshot(self, selector: str = "html", scale: float = 1.0) -> bytes:
        """Return a picture (PNG) of an element, also of what is not in the window."""
        x, y, width, height = self.evaluate(
            "(() => { const r = "
            f"document.querySelector({json.dumps(selector)}).getBoundingClientRect();"
            "return [r.x + scrollX, r.y + scrollY, r.width, r.height]; })()"
        )
        clip = {"x": x, "y": y, "width": width, "height": height, "scale": scale}
        data = self.call(
            "Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip
        )
        return base64.b64decode(data["data"])

    def pdf(self) -> bytes:
        """Return the page as it is printed."""
        return base64.b64decode(
            self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"]
        )

    def complaints(self) -> list[str]:
        """Return script errors, console errors and warnings, blocked loads, and requests beyond the
        page itself.
        """
        found = []
        for event in self.events:
            method, given = event.get("method", ""), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(
                    "exception: "
                    f"{given['exceptionDetails'].get('exception', {}).get('description', given)}"
                )
            elif method == "Runtime.consoleAPICalled" and given["type"] in (
                "error",
                "warning",
                "assert",
            ):
                found.append(f"console: {given['args']}")
            elif method == "Log.entryAdded" and given["entry"]["level"] in ("error", "warning"):
                found.append(f"log: {given['entry']['text']}")
            elif method == "Audits.issueAdded":
                found.append(f"issue: {given['issue']['code']}")
            elif method == "Network.requestWillBeSent" and given["type"] != "Document":
                found.append(f"request: {given['request']['url']}")
        return found

    def _receive(self, patience: float) -> dict[str, Any]:
        deadline = time.monotonic() + patience
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "the browser does not answer"
            piece = os.read(self._in, 1 << 20)
            assert piece, f"the browser ended with exit code {self.process.wait()}"
            self._buffer += piece
        message, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(message))

    def close(self) -> None:
        """End the browser."""
        for descriptor in (self._in, self._out):
            os.close(descriptor)
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
