"""What the browser gets: files of this package, read once. A file that has not changed is not sent again."""

import hashlib
from importlib import resources
from typing import Final

from headrace.console.http_server import ConsoleReply, ConsoleRequest, RefusedCallError

ASSETS_BYTES_MAX: Final = 300_000
_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
INDEX: Final = "index.html"


class Assets:
    """The files by their paths."""

    def __init__(self) -> None:
        self.files = dict(_read(resources.files("headrace.console") / "assets", ""))
        self._tags = {name: f'"{hashlib.sha256(data).hexdigest()[:20]}"' for name, data in self.files.items()}

    @property
    def total_bytes(self) -> int:
        return sum(map(len, self.files.values()))

    def reply(self, request: ConsoleRequest) -> ConsoleReply:
        """A file below /assets/; for any other path the page itself, which reads the path."""
        name = INDEX
        if request.path.startswith("/assets/"):
            name = request.path.removeprefix("/assets/")
            if name not in self.files:
                raise RefusedCallError(404, "there is no such file")
        headers = {"ETag": self._tags[name], "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == self._tags[name]:
            return ConsoleReply(304, headers=headers)
        return ConsoleReply(200, self.files[name], _TYPES[name.rpartition(".")[2]], headers)


def _read(folder: "resources.abc.Traversable", prefix: str) -> list[tuple[str, bytes]]:
    found = []
    for each in folder.iterdir():
        if each.is_dir():
            found += _read(each, f"{prefix}{each.name}/")
        elif each.name.rpartition(".")[2] in _TYPES:
            found.append((f"{prefix}{each.name}", each.read_bytes()))
    return found
