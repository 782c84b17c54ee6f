"""One request about one cluster, as the functions in `api/` get it."""

from dataclasses import dataclass, field
from typing import Any

from headrace.clients import AsyncAdmin
from headrace.console.cluster_connection import ClusterConnection
from headrace.console.cluster_watch import ClusterWatch
from headrace.console.http_server import ConsoleRequest, RefusedCallError
from headrace.console.masks import mask_for
from headrace.console.metrics_reader import MetricsReader
from headrace.console.reading_limits import ReadingLimits
from headrace.console.record_view import RecordView


@dataclass(slots=True)
class Visit:
    """Who asks for what. `details` are the names, never contents, that the audit line of a change has."""

    request: ConsoleRequest
    arguments: dict[str, str]
    watch: ClusterWatch
    user: str
    metrics: MetricsReader | None = None
    needs_login: bool = False
    """Whether people log in to this cluster, and this is one of them."""
    details: dict[str, Any] = field(default_factory=dict)
    reading: ReadingLimits = field(default_factory=ReadingLimits)
    """Of the console: what all its visitors have together."""

    @property
    def admin(self) -> AsyncAdmin:
        return self.watch.connection.admin

    @property
    def connection(self) -> ClusterConnection:
        return self.watch.connection

    def view_of(self, topic: str) -> RecordView:
        """How this person sees a topic's records."""
        mask = mask_for(self.connection.spec.extras.masks, topic, self.user)
        return RecordView(self.connection.payloads, mask)

    def query_int(self, name: str, default: int, *, least: int = 0, most: int = 1 << 62) -> int:
        """A number of the query; RefusedCallError where it is none, or out of range."""
        text = self.request.query.get(name, "")
        if not text:
            return default
        try:
            number = int(text)
        except ValueError:
            raise RefusedCallError(400, f"{name}={text!r} is no number") from None
        if not least <= number <= most:
            raise RefusedCallError(400, f"{name} is from {least} to {most}")
        return number


def text_of(body: dict[str, Any], name: str, *, default: str | None = None) -> str:
    """A text of a body; RefusedCallError where it is missing or something else."""
    value = body.get(name, default)
    if not isinstance(value, str):
        raise RefusedCallError(400, f"{name!r} must be a text")
    return value


def number_of(body: dict[str, Any], name: str, *, default: int | None = None) -> int:
    """A whole number of a body; RefusedCallError where it is missing or something else."""
    value = body.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise RefusedCallError(400, f"{name!r} must be a whole number")
    return value


def texts_of(body: dict[str, Any], name: str) -> dict[str, str]:
    """An object of texts; empty where it is missing."""
    value = body.get(name, {})
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise RefusedCallError(400, f"{name!r} must be an object of texts")
    return value


def names_in(body: dict[str, Any], name: str) -> list[str]:
    """A list of texts; empty where it is missing."""
    value = body.get(name, [])
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise RefusedCallError(400, f"{name!r} must be a list of texts")
    return value
