"""The options of source and sink, read once from what the user gave.

Names, defaults and meanings are those of Spark's Kafka connector, so that `format("kafka")` becomes
`format("headrace")` and nothing else changes; ours on top are `columns`, `history`, `read.mode`, `path`,
`store.*` and `delivery`.
Spark hands options over with their cases folded: names are compared that way and told as they are written
in the documentation. An option that nobody knows is an error that names the nearest one, because an option
that is silently left out is a wrong answer. Options that only make sense elsewhere (`maxOffsetsPerTrigger`
in a batch read) are passed over, as the connector does.

Options `kafka.*` are settings of the clients, under the names that Kafka's own clients have. Most are ours
and checked by their table. Some would work against source or sink, and are refused with what to do instead.
Some belong to the inside of Kafka's Java client and change nothing about what is read or written: a query
that brings them along from `format("kafka")` is told so in the log and runs. All others are unknown.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.base.ids import TopicPartition
from headrace.clients import OffsetSpec
from headrace.clients.config import ADMIN, CONSUMER, PRODUCER, ClientConfig
from headrace.settings.definition import Setting, SettingError
from headrace.spark.columns import ALL_COLUMNS, HEADERS, default_columns
from headrace.spark.java_patterns import java_pattern
from headrace.spark.option_values import (
    OptionError,
    as_bool,
    as_choice,
    as_duration_ms,
    as_int,
    as_names,
    as_numbers,
    as_partitions,
    as_positive,
    as_time_ms,
    unknown_option,
)
from headrace.spark.secret_options import CLIENT_PREFIX, STORE_PREFIX

log = logging.getLogger(__name__)

NOT_FOR_READING: Final = {
    "auto.offset.reset": "say with startingOffsets where to begin; Spark keeps track of what is read",
    "key.deserializer": "keys come as bytes: cast or decode the column",
    "value.deserializer": "values come as bytes: cast or decode the column",
    "enable.auto.commit": "Spark keeps track of what is read; with kafka.group.id it is shown in that group",
    "interceptor.classes": "records come as they are: change them in the query",
}
NOT_FOR_WRITING: Final = {
    "key.serializer": "keys are written as the bytes of the column: cast or encode it",
    "value.serializer": "values are written as the bytes of the column: cast or encode it",
    "interceptor.classes": "records are written as they are: change them in the query",
}
_WITHOUT_EFFECT: Final = frozenset(
    {
        "auto.include.jmx.reporter",
        "client.dns.lookup",
        "connections.max.idle.ms",
        "enable.metrics.push",
        "metadata.max.idle.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partitioner.availability.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
    }
)


def client_settings(
    options: Mapping[str, str], table: Mapping[str, Setting], refused: Mapping[str, str]
) -> dict[str, str]:
    """The client's settings among options with folded names, checked; OptionError for what will not do."""
    found = {}
    for option, text in options.items():
        if not option.startswith(CLIENT_PREFIX):
            continue
        name, value = option.removeprefix(CLIENT_PREFIX), text.strip()
        if name in refused:
            raise OptionError(f"option {option} cannot be set: {refused[name]}")
        if name in table:
            found[name] = value
        elif name in _WITHOUT_EFFECT:
            log.warning("option %s has no effect: it is about the inside of Kafka's own client", option)
        else:
            raise unknown_option(option, [CLIENT_PREFIX + each for each in table], "Kafka")
    if "bootstrap.servers" in found:
        try:
            ClientConfig(table, found)
        except SettingError as error:
            raise OptionError(f"option kafka.{error}") from None
    return found


# A table of Spark's catalogue hands over its properties as options: these, and each option once more with a
# prefix (TableCatalog.OPTION_PREFIX).
_TABLE_PROPERTIES: Final = frozenset(
    ("provider", "location", "comment", "owner", "external", "is_managed_location", "collation")
)
_TABLE_OPTION: Final = "option."
_SELECTIONS: Final = ("subscribe", "subscribePattern", "assign")
READ_OPTIONS: Final = (
    *_SELECTIONS,
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "failOnDataLoss",
    "minPartitions",
    "maxRecordsPerPartition",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "includeHeaders",
    "groupIdPrefix",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "kafkaConsumer.pollTimeoutMs",
    "columns",
    "history",
    "read.mode",
    "path",
    "store.url",
    "store.class.name",
    "checkedFile",
)
WRITE_OPTIONS: Final = (
    "topic",
    "includeHeaders",
    "delivery",
    "sinkId",
    "path",
    "checkpointLocation",
    "queryName",
)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which partitions: of these topics, of those whose name matches a pattern, or exactly these."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class Bound:
    """Where reading begins or ends: one of the three.

    `numbers` are offsets (or an `OffsetSpec`: -1, -2) of each partition, or times where `by_time` is set.
    """

    place: OffsetSpec | None = None
    time_ms: int | None = None
    numbers: Mapping[TopicPartition, int] | None = None
    by_time: bool = False


EARLIEST: Final = Bound(place=OffsetSpec.EARLIEST)
LATEST: Final = Bound(place=OffsetSpec.LATEST)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What is read, and how. Picklable: tasks get it too."""

    settings: Mapping[str, str] = field(repr=False)
    """Of the consumer, without `kafka.`; checked."""
    selection: Selection
    starting: Bound
    ending: Bound
    columns: tuple[str, ...]
    latest_without_match: bool = False
    """What a start by time means in a partition that has nothing that late: its end, or else an error."""
    fail_on_data_loss: bool = True
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 15 * 60_000
    group_id: str | None = None
    """The group in which a stream's progress is shown."""
    group_id_prefix: str = "spark-headrace-source"
    offset_retries: int = 3
    offset_retry_ms: int = 1000
    poll_timeout_ms: int = 120_000
    history: str | None = None
    """A table of `headrace load` that has the topics' records: what it holds is read there."""
    read_mode: str = "fetch"
    """`fetch` asks brokers for records, `segments` reads their files."""
    path: str | None = None
    """Log directories or partitions' folders to read, with brokers or without; implies segments."""
    store_url: str | None = None
    """The brokers' remote store: what of a tiered topic has left their disks is read there."""
    store_class: str | None = None
    """Where it is a class of the user's own: as brokers have it in remote.log.storage.manager.class.name."""
    store_settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """May hold credentials."""
    checked_file: str | None = None
    """Which offsets another query has found to hold nothing that this one wants (`checked_ranges`)."""

    @property
    def has_brokers(self) -> bool:
        """False where there is nothing but a path."""
        return "bootstrap.servers" in self.settings

    @property
    def has_store(self) -> bool:
        return self.store_url is not None or self.store_class is not None

    @property
    def is_committed(self) -> bool:
        """Whether records of open and aborted transactions are left out."""
        return self.settings.get("isolation.level", "").lower() == "read_committed"

    @property
    def admin_settings(self) -> dict[str, str]:
        """Those of the settings that an administrator takes."""
        return {name: value for name, value in self.settings.items() if name in ADMIN}


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Where rows go, and how. Picklable: tasks get it too."""

    settings: Mapping[str, str] = field(repr=False)
    """Of the producer, without `kafka.`; checked."""
    topic: str | None = None
    """For all rows; without it a column `topic` says where each goes."""
    include_headers: bool = True
    delivery: str | None = None
    """None leaves it to the kind of write: batches of streams are repeated, batch writes are not."""
    sink_id: str | None = None
    """Names what exactly_once decides about; a streaming query's id where it is not given."""


class Given:
    """The user's options by folded name; `take` also checks off what is known."""

    def __init__(
        self, options: Mapping[str, str], known: tuple[str, ...], what: str, prefixes: tuple[str, ...] = ()
    ) -> None:
        self.values = _without_properties({name.lower(): value for name, value in options.items()})
        names = {name.lower() for name in known}
        for name in self.values:
            if name not in names and not name.startswith((CLIENT_PREFIX, *prefixes)):
                raise unknown_option(name, (*known, CLIENT_PREFIX + "bootstrap.servers"), what)

    def __contains__(self, name: str) -> bool:
        return name.lower() in self.values

    def get(self, name: str, parse: Any, default: Any = None) -> Any:
        """The parsed value of an option, or the default."""
        text = self.values.get(name.lower())
        return default if text is None else parse(name, text)


def user_options(options: Mapping[str, str]) -> dict[str, str] | None:
    """What a user has said, of what a table of the catalogue hands over; None where this is not a table."""
    folded = {name.lower(): text for name, text in options.items()}
    return _without_properties(folded) if "provider" in folded else None


def _without_properties(options: dict[str, str]) -> dict[str, str]:
    if "provider" not in options:
        return options
    said = {
        name.removeprefix(_TABLE_OPTION): text
        for name, text in options.items()
        if name.startswith(_TABLE_OPTION)
    }
    own = {name: text for name, text in options.items() if not name.startswith(_TABLE_OPTION)}
    return {name: text for name, text in {**said, **own}.items() if name not in _TABLE_PROPERTIES}


def read_options(options: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    """The options of a read; OptionError for what is unknown, missing, malformed or contradictory."""
    given = Given(options, READ_OPTIONS, "reading", (STORE_PREFIX,))
    settings = client_settings(given.values, CONSUMER, NOT_FOR_READING)
    path = given.get("path", _text)
    mode = given.get("read.mode", _read_mode, "segments" if path else "fetch")
    if path and mode != "segments":
        raise OptionError("option path needs read.mode=segments: it is files that are read there")
    store = {name: text for name, text in given.values.items() if name.startswith(STORE_PREFIX)}
    if store:
        _check_store(store, mode)
    if "bootstrap.servers" not in settings and not path:
        raise OptionError("option kafka.bootstrap.servers is missing: say where the brokers are")
    history = given.get("history", _text)
    if history and "bootstrap.servers" not in settings:
        raise OptionError("option history needs kafka.bootstrap.servers: what follows it is in the log")
    # A stream that is given a history is to begin with it.
    starting = _bound(given, "starting", LATEST if streaming and not history else EARLIEST)
    ending = _bound(given, "ending", LATEST)
    if streaming:
        _check_stream(given)
    else:
        _check_batch(starting, ending)
    least, most = (
        given.get("minOffsetsPerTrigger", as_positive),
        given.get("maxOffsetsPerTrigger", as_positive),
    )
    if least is not None and most is not None and least > most:
        raise OptionError(f"minOffsetsPerTrigger ({least}) is higher than maxOffsetsPerTrigger ({most})")
    return ReadOptions(
        settings={name: value for name, value in settings.items() if name != "group.id"},
        selection=_selection(given),
        starting=starting,
        ending=ending,
        columns=read_columns(options),
        latest_without_match=given.get("startingOffsetsByTimestampStrategy", _strategy, "error") == "latest",
        fail_on_data_loss=given.get("failOnDataLoss", as_bool, True),
        min_partitions=given.get("minPartitions", as_positive),
        max_records_per_partition=given.get("maxRecordsPerPartition", as_positive),
        max_offsets_per_trigger=most,
        min_offsets_per_trigger=least,
        max_trigger_delay_ms=given.get("maxTriggerDelay", as_duration_ms, 15 * 60_000),
        group_id=settings.get("group.id"),
        group_id_prefix=given.get("groupIdPrefix", _text, "spark-headrace-source"),
        offset_retries=given.get("fetchOffset.numRetries", as_int, 3),
        offset_retry_ms=given.get("fetchOffset.retryIntervalMs", as_int, 1000),
        poll_timeout_ms=given.get("kafkaConsumer.pollTimeoutMs", as_positive, 120_000),
        history=history,
        read_mode=mode,
        path=path,
        store_url=store.pop("store.url", None),
        store_class=store.pop("store.class.name", None),
        store_settings=tuple(sorted((name.removeprefix(STORE_PREFIX), text) for name, text in store.items())),
        checked_file=given.get("checkedFile", _text),
    )


def _check_store(store: Mapping[str, str], mode: str) -> None:
    if not store.get("store.url", "").strip() and not store.get("store.class.name", "").strip():
        raise OptionError("option store.url is missing: say where the remote store is, or store.class.name")
    if mode != "segments":
        raise OptionError(
            "options store.* need read.mode=segments: brokers read their remote store themselves"
        )


def read_columns(options: Mapping[str, str]) -> tuple[str, ...]:
    """The columns that a read gives: those named, else all, with headers where they are asked for."""
    given = Given(options, READ_OPTIONS, "reading", (STORE_PREFIX,))
    include_headers = given.get("includeHeaders", as_bool, False)
    named = given.get("columns", as_names)
    if named is None:
        return default_columns(include_headers=include_headers)
    by_lower = {name.lower(): name for name in ALL_COLUMNS}
    columns = []
    for name in named:
        if name.lower() not in by_lower:
            raise OptionError(f"option columns: there is no {name!r}; there are {', '.join(ALL_COLUMNS)}")
        columns.append(by_lower[name.lower()])
    if include_headers and HEADERS not in columns:
        raise OptionError("includeHeaders is true, but option columns leaves headers out: name it there too")
    return tuple(dict.fromkeys(columns))


def write_options(options: Mapping[str, str]) -> WriteOptions:
    """The options of a write; OptionError as for reads."""
    given = Given(options, WRITE_OPTIONS, "writing")
    settings = client_settings(given.values, PRODUCER, NOT_FOR_WRITING)
    if "bootstrap.servers" not in settings:
        raise OptionError("option kafka.bootstrap.servers is missing: say where the brokers are")
    return WriteOptions(
        settings=settings,
        topic=given.get("topic", _text),
        include_headers=given.get("includeHeaders", as_bool, True),
        delivery=given.get("delivery", _text),
        sink_id=given.get("sinkId", _sink_id),
    )


def _text(name: str, text: str) -> str:
    if not text.strip():
        raise OptionError(f"option {name} is empty")
    return text.strip()


def _sink_id(name: str, text: str) -> str:
    if "/" in text:
        raise OptionError(f"option {name}={text}: it must not contain a slash")
    return _text(name, text)


def _read_mode(name: str, text: str) -> str:
    return as_choice(name, text, ("fetch", "segments"))


def _strategy(name: str, text: str) -> str:
    return as_choice(name, text, ("error", "latest"))


def _selection(given: Given) -> Selection:
    chosen = [name for name in _SELECTIONS if name in given]
    if not chosen and "path" in given:
        return Selection(pattern=".*")  # all that is there
    if len(chosen) != 1:
        what = "none is given" if not chosen else f"{' and '.join(chosen)} are given"
        raise OptionError(f"exactly one of the options {', '.join(_SELECTIONS)} says what is read: {what}")
    if chosen[0] == "assign":
        return Selection(partitions=given.get("assign", as_partitions))
    if chosen[0] == "subscribe":
        return Selection(topics=given.get("subscribe", as_names))
    pattern = given.get("subscribePattern", _text)
    java_pattern(pattern)  # what is wrong with it is to be told now, not in the first batch
    return Selection(pattern=pattern)


def _bound(given: Given, side: str, default: Bound) -> Bound:
    """The first of the three ways in which a side can be said, in the connector's order of preference."""
    time_ms = given.get(f"{side}Timestamp", as_time_ms)
    if time_ms is not None:
        return Bound(time_ms=time_ms, by_time=True)
    times = given.get(f"{side}OffsetsByTimestamp", lambda name, text: as_numbers(name, text, least=0))
    if times is not None:
        return Bound(numbers=times, by_time=True)
    return given.get(f"{side}Offsets", _offsets, default)  # type: ignore[no-any-return]


def _offsets(name: str, text: str) -> Bound:
    lower = text.strip().lower()
    if lower in ("earliest", "latest"):
        return EARLIEST if lower == "earliest" else LATEST
    if not lower.startswith("{"):
        raise OptionError(f"option {name} must be earliest, latest or JSON of offsets, not {text!r}")
    return Bound(numbers=as_numbers(name, text, least=OffsetSpec.EARLIEST))


def _check_stream(given: Given) -> None:
    # A time that has passed is the same end whenever it is asked for; offsets would have to be kept.
    for name in ("endingOffsets", "endingOffsetsByTimestamp"):
        if name in given:
            raise OptionError(
                f"option {name} is for batch reads: a stream has no end (see endingTimestamp, availableNow)"
            )


def _check_batch(starting: Bound, ending: Bound) -> None:
    if starting.place == OffsetSpec.LATEST:
        raise OptionError("startingOffsets cannot be latest in a batch read: nothing would be read")
    if ending.place == OffsetSpec.EARLIEST:
        raise OptionError("endingOffsets cannot be earliest in a batch read: nothing would be read")
    first, last = starting.numbers, ending.numbers
    for name, numbers, forbidden, bound in (
        ("startingOffsets", first, OffsetSpec.LATEST, starting),
        ("endingOffsets", last, OffsetSpec.EARLIEST, ending),
    ):
        wrong = [] if bound.by_time else [tp for tp, number in (numbers or {}).items() if number == forbidden]
        if wrong:
            raise OptionError(f"{name} of {wrong[0]} cannot be {forbidden.name.lower()} in a batch read")
    if first is None or last is None or starting.by_time != ending.by_time:
        return
    if set(first) != set(last):
        only = ", ".join(map(str, sorted(set(first) ^ set(last))))
        raise OptionError(f"start and end must be given for the same partitions; only on one side: {only}")
    for partition, number in first.items():
        if 0 <= last[partition] < number:
            raise OptionError(f"the start of {partition} ({number}) is behind its end ({last[partition]})")
