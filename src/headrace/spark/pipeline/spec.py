"""What a pipeline's file says, understood: inputs, outputs, trigger, checkpoint (`spec_reader` reads it)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from headrace.spark.pipeline.header import Header
from headrace.spark.pipeline.schedule import Schedule

TABLE_KINDS: Final = ("parquet", "delta", "iceberg")
TOMBSTONES: Final = ("carry", "drop")
DEAD_LETTERS: Final = "dead letters"


@dataclass(frozen=True, slots=True)
class SubjectSpec:
    """Which schema of the registry: a subject's latest version, or the one named."""

    subject: str | None = None
    """The topic's own without it: TOPIC-value."""
    version: int | None = None
    is_made: bool = False
    """An output's: made of the query's columns, and registered."""


@dataclass(frozen=True, slots=True)
class PayloadSpec:
    """A payload's format: fields in SQL's words (json), or a schema's file and a message's name; or a schema
    of the registry."""

    line: int
    kind: str
    schema: str
    message: str | None = None
    registered: SubjectSpec | None = None


@dataclass(frozen=True, slots=True)
class RegistrySpec:
    """Where schemas are: an address or a folder."""

    line: int
    place: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class AlertSpec:
    """What must not be above a number: `lag`, or `bad rows`."""

    line: int
    what: str
    most: int


@dataclass(frozen=True, slots=True)
class ExpectSpec:
    """A condition that rows of an input must fulfil, and what becomes of those that do not."""

    line: int
    condition: str
    action: str


@dataclass(frozen=True, slots=True)
class InputSpec:
    """A feed, or with `files_kind` files that are read once: a table to look things up in."""

    line: int
    name: str
    topics: str = ""
    pattern: str | None = None
    files_kind: str | None = None
    path: str = ""
    payload: PayloadSpec | None = None
    watermark: tuple[str, str] | None = None
    start: str = "earliest"
    end: str | None = None
    """Milliseconds: records from then on are not read. None is no end."""
    dead_letters: str | None = None
    expects: tuple[ExpectSpec, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """`kind` is feed, feeds (the column `topic` says which), console or a kind of table.

    A table with the mode upsert has one row for each value of its key, which may be several columns.
    """

    line: int
    kind: str
    place: str = ""
    key: str | None = None
    payload: PayloadSpec | None = None
    mode: str = "append"
    partition_by: tuple[str, ...] = ()
    files: int | None = None
    schema: str = "evolve"
    """What becomes of rows whose columns are not the table's."""
    compact: int | None = None
    """How many small files of a table are joined; 0 never does, None where the run does not end."""
    tombstones: str = TOMBSTONES[0]
    """Of a feed whose query does not name them."""
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    name: str = ""
    """Of one of several outputs."""
    source: str = ""
    """The view, or the function, whose rows go there; the file's one query where there is none."""

    @property
    def key_columns(self) -> tuple[str, ...]:
        return names_of(self.key or "")


@dataclass(frozen=True, slots=True)
class PipelineSpec:
    """A file, understood."""

    header: Header
    name: str
    brokers: str | None
    inputs: tuple[InputSpec, ...]
    outputs: tuple[OutputSpec, ...]
    trigger: Mapping[str, str | bool]
    """As `DataStreamWriter.trigger` takes it; nothing means one batch after the other."""
    checkpoint: str
    session: Mapping[str, str]
    registry: RegistrySpec | None = None
    schedule: Schedule | None = None
    alerts: tuple[AlertSpec, ...] = ()
    clients: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Settings of clients that the command was given, as security.protocol: no part of the file."""

    @property
    def output(self) -> OutputSpec:
        """The first, which is the only one as a rule."""
        return self.outputs[0]

    @property
    def body(self) -> str:
        """What follows the head."""
        return "\n".join(self.header.text.splitlines()[self.header.body_line - 1 :])

    @property
    def text(self) -> str:
        """The same behind blank lines, so that its lines are the file's: what Spark is told, it shows, and
        the head may hold secrets."""
        return "\n" * (self.header.body_line - 1) + self.body

    @property
    def is_python(self) -> bool:
        return self.header.path.endswith(".py")


def names_of(text: str) -> tuple[str, ...]:
    """A list with commas."""
    return tuple(filter(None, map(str.strip, text.split(","))))


def time_ms(text: str) -> int | None:
    """Milliseconds, or a time in ISO's form, which is UTC where it does not say; None where it is neither."""
    if text.isdecimal():
        return int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)
