"""Debian's Chromium as a process of a test, driven over its DevTools protocol by a pipe: no port, no library.

    with Chromium(program, folder) as browser:
        tab = browser.tab(width=1440)
        tab.go("http://127.0.0.1:8080/")
        tab.until("document.querySelector('h1')?.textContent === 'Overview'")

What a page reports as wrong (exceptions, errors on its console, broken policies) is in `tab.problems`.
"""

import base64
import itertools
import json
import os
import queue
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from tests.compat.clients.face import eventually

ANSWER_S = 180.0
WITHIN_S = 120.0


class ProtocolError(Exception):
    """Chromium refused a command: as a rule, the page that it was about is being replaced by another."""


class Chromium:
    """One browser without a window."""

    def __init__(self, program: Path, folder: Path, environment: Mapping[str, str]) -> None:
        self._program = program
        self._folder = folder
        self._environment = dict(os.environ) | dict(environment)
        self._ids = itertools.count(1)
        self._answers: dict[int, queue.Queue[dict[str, Any]]] = {}
        self.tabs: dict[str, Tab] = {}

    def __enter__(self) -> Self:
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()
        flags = [
            "--headless=new",
            "--no-sandbox",  # tests may run as root
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--hide-scrollbars",
            "--no-first-run",
            "--remote-debugging-pipe",
            f"--user-data-dir={self._folder / 'profile'}",
        ]
        # Chromium reads from 3 and writes to 4. A plain sh knows numbers of one digit only.
        wired = f'exec "$0" "$@" 3<&{to_read} 4>&{to_write}'
        with (self._folder / "chromium.log").open("wb") as log:
            self._process = subprocess.Popen(
                ["bash", "-c", wired, str(self._program), *flags],
                pass_fds=(to_read, to_write),
                env=self._environment,
                stdout=log,
                stderr=log,
            )
        os.close(to_read)
        os.close(to_write)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._to)
        self._process.kill()
        self._process.wait()
        self._reader.join(10)
        os.close(self._from)

    def _read(self) -> None:
        rest = b""
        while piece := os.read(self._from, 1 << 20):
            *messages, rest = (rest + piece).split(b"\0")
            for message in map(json.loads, messages):
                if "id" in message:
                    self._answers[message["id"]].put(message)
                elif (tab := self.tabs.get(message.get("sessionId", ""))) is not None:
                    tab.hear(message["method"], message["params"])

    def call(self, method: str, session: str = "", **parameters: Any) -> Any:
        """The result of a command of the protocol."""
        number = next(self._ids)
        answer = self._answers[number] = queue.Queue()
        command = {"id": number, "method": method, "params": parameters}
        if session:
            command["sessionId"] = session
        self._send(json.dumps(command).encode() + b"\0")
        found = answer.get(timeout=ANSWER_S)
        del self._answers[number]
        if "error" in found:
            raise ProtocolError(f"{method}: {found['error']}")
        return found["result"]

    def _send(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._to, data) :]

    def tab(self, *, width: int = 1440, height: int = 900, scheme: str = "light") -> "Tab":
        """A page of its own, with cookies of its own."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        tab = self.tabs[session] = Tab(self, session)
        for domain in ("Page", "Runtime", "Log"):
            tab.call(f"{domain}.enable")
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        tab.call("Emulation.setDeviceMetricsOverride", **metrics)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        tab.call("Emulation.setEmulatedMedia", features=features)
        return tab


class Tab:
    """One page of a browser."""

    def __init__(self, browser: Chromium, session: str) -> None:
        self._browser = browser
        self._session = session
        self.problems: list[str] = []

    def call(self, method: str, **parameters: Any) -> Any:
        return self._browser.call(method, self._session, **parameters)

    def hear(self, method: str, given: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            details = given["exceptionDetails"]
            self.problems.append(str(details.get("exception", {}).get("description", details["text"])))
        elif method == "Log.entryAdded" and given["entry"]["level"] == "error":
            entry = given["entry"]
            # A cluster that takes too long is told on the page, and it asks again.
            if not (entry["source"] == "network" and "status of 50" in entry["text"]):
                self.problems.append(f"{entry['text']} {entry.get('url', '')}")

    def go(self, url: str) -> None:
        """Open another page; what is asked for from now on is asked of that one."""
        self._leave()
        self.call("Page.navigate", url=url)
        self.until("!window.leaving")

    def reload(self) -> None:
        """Open the same page anew."""
        self._leave()
        self.call("Page.reload")
        self.until("!window.leaving")

    def _leave(self) -> None:
        """The old page answers until it is replaced: it is marked."""
        self.js("window.leaving = true")

    def js(self, expression: str) -> Any:
        """What an expression of the page gives; a promise is waited for."""
        found = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True, userGesture=True
        )
        assert "exceptionDetails" not in found, (expression, found["exceptionDetails"])
        return found["result"].get("value")

    def until(self, expression: str, within_s: float = WITHIN_S) -> None:
        """Wait until an expression is true."""

        def is_so() -> bool:
            try:
                return bool(self.js(expression))
            except ProtocolError:
                return False

        eventually(is_so, lambda: f"{expression}; the page says: {self._words()}", within_s)

    def _words(self) -> str:
        try:
            return str(self.js("document.body?.innerText.slice(0, 400)"))
        except ProtocolError as error:
            return str(error)

    def until_text(self, text: str) -> None:
        """Wait until the page shows a text."""
        self.until(f"Boolean(document.body?.innerText.includes({json.dumps(text)}))")

    def click(self, text: str, selector: str = "button, a, summary, [role=tab]") -> None:
        """Click on what has this text, once it is there."""
        found = (
            f"[...document.querySelectorAll({json.dumps(selector)})]"
            f".filter(e => e.offsetParent !== null || e.closest('dialog'))"
            f".find(e => e.innerText?.trim() === {json.dumps(text)})"  # a link of a drawing has none
        )
        self.until(f"Boolean({found})")
        self.js(f"{found}.click()")

    def fill(self, selector: str, value: str) -> None:
        """Put a value into an input, as typing would."""
        self.until(f"Boolean(document.querySelector({json.dumps(selector)}))")
        self.js(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); "
            f"e.value = {json.dumps(value)}; "
            "e.dispatchEvent(new Event('input', {bubbles: true})); "
            "e.dispatchEvent(new Event('change', {bubbles: true})); })()"
        )

    def field(self, label: str, value: str, within: str = "dialog") -> None:
        """Put a value into the input, or choose it from the list, that has this label."""
        found = (
            f"[...document.querySelectorAll({json.dumps(within)} + ' .field')]"
            f".find(e => e.querySelector('span')?.textContent === {json.dumps(label)})"
        )
        self.until(f"Boolean({found})")
        self.js(
            f"(() => {{ const e = {found}.querySelector('input, select, textarea'); "
            f"e.value = {json.dumps(value)}; "
            "e.dispatchEvent(new Event('input', {bubbles: true})); "
            "e.dispatchEvent(new Event('change', {bubbles: true})); })()"
        )

    def picture(self, file: Path, *, is_whole: bool = True) -> None:
        """The whole page as a PNG, or what the window shows of it."""
        asked: dict[str, Any] = {}
        if is_whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 3000), "scale": 1}
            asked = {"captureBeyondViewport": True, "clip": clip}
        shot = self.call("Page.captureScreenshot", format="png", **asked)
        file.write_bytes(base64.b64decode(shot["data"]))
