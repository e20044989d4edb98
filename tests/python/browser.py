"""A headless Chromium that tests steer: the DevTools protocol over pipes, as `--remote-debugging-pipe` speaks it."""

from __future__ import annotations

import base64
import json
import os
import select
import subprocess
import time
from pathlib import Path

from report_page import CHROMIUM

_FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
_FLAGS += ["--disable-component-update", "--disable-sync", "--disable-quic", "--hide-scrollbars"]
_PATIENCE = 300  # seconds; other tests may have the processors


def opened(profile: Path, page: Path, figures: int, width: int = 1200) -> str:
    """The document of a page once it has drawn so many figures, with every section open."""
    with Browser(profile) as browser:
        browser.open(page, width=width, hash="#everything")
        browser.wait(f"document.documentElement.dataset.drawn == '{figures}'" if figures else "true")
        return browser.run("document.documentElement.outerHTML")


class Browser:
    """One page. `with Browser(folder) as browser: browser.open(path, width=400, touch=True)`."""

    def __init__(self, profile: Path):
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()

        def connect():  # in the child: descriptors 3 and 4 are what Chromium reads and writes
            os.dup2(to_browser, 253)
            os.dup2(from_browser, 254)
            os.dup2(253, 3)
            os.dup2(254, 4)

        self._process = subprocess.Popen(
            [CHROMIUM, *_FLAGS, "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=connect,  # noqa: PLW1509
            close_fds=False,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._buffer, self._number, self._session = b"", 0, None
        targets = self._call("Target.getTargets")["targetInfos"]
        page = next(t for t in targets if t["type"] == "page")
        self._session = self._call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        os.close(self._write)
        self._process.terminate()
        self._process.wait(30)
        os.close(self._read)

    def _call(self, method: str, **parameters) -> dict:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + _PATIENCE
        while True:
            while b"\0" not in self._buffer:
                assert select.select([self._read], [], [], max(0.0, until - time.monotonic()))[0], (
                    f"{method}: no answer"
                )
                self._buffer += os.read(self._read, 1 << 20)
            text, _, self._buffer = self._buffer.partition(b"\0")
            answer = json.loads(text)
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer.get('error')}"
                return answer["result"]

    def open(
        self, page: Path, *, width: int, height: int = 1000, touch: bool = False, dark: bool = False, hash: str = ""
    ):
        self._call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self._call("Emulation.setTouchEmulationEnabled", enabled=touch)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", media="", features=[scheme])
        self._call("Page.navigate", url="about:blank")  # the same file with another hash would not load anew
        self._call("Page.navigate", url=page.as_uri() + hash)
        self.wait("location.protocol === 'file:' && document.readyState === 'complete'")

    def run(self, script: str):
        """The value of a JavaScript expression; of a promise, what it holds."""
        answer = self._call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, condition: str):
        """Until the expression is true; its value."""
        until = time.monotonic() + _PATIENCE
        while not (value := self.run(condition)):
            assert time.monotonic() < until, f"never true: {condition}"
            time.sleep(0.05)
        return value

    def swipe(self, x: float, y: float, distance: float) -> None:
        """One finger from (x, y) upwards."""
        self._call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        for k in range(1, 11):
            point = {"x": x, "y": y - distance * k / 10}
            self._call("Input.dispatchTouchEvent", type="touchMove", touchPoints=[point])
        self._call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def screenshot(self, file: Path, *, whole: bool = False) -> None:
        more = {}
        if whole:
            size = self.run("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
            more = {
                "clip": {"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1},
                "captureBeyondViewport": True,
            }
        image = self._call("Page.captureScreenshot", format="png", **more)["data"]
        file.write_bytes(base64.b64decode(image))
