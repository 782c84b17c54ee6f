"""What a pipeline's head says: inputs, output, trigger and checkpoint, each checked where it stands."""

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from headrace.spark.pipeline.errors import PipelineError
from headrace.spark.pipeline.header import Entry, Header, read_header

_TOP: Final = ("name", "brokers", "in", "out", "trigger", "checkpoint", "set")
_PAYLOADS: Final = ("json", "avro", "protobuf")
_IN_FEED: Final = (*_PAYLOADS, "watermark", "start", "dead letters", "option")
_IN_FILES: Final = ("option",)
_OUT_FEED: Final = (*_PAYLOADS, "key", "mode", "option")
_OUT_TABLE: Final = ("partition by", "mode", "files")
_OUT_CONSOLE: Final = ("mode",)
NAMES: Final = tuple(dict.fromkeys((*_TOP, *_IN_FEED, *_OUT_FEED, *_OUT_TABLE)))

FILE_KINDS: Final = ("parquet", "json", "csv", "delta")
TABLE_KINDS: Final = ("parquet", "delta", "iceberg")
MODES: Final = ("append", "update")


@dataclass(frozen=True, slots=True)
class PayloadSpec:
    """A payload's format: fields in SQL's words (json), or a schema's file and a message's name."""

    line: int
    kind: str
    schema: str
    message: str | None = None


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
    dead_letters: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """`kind` is feed, feeds (the column `topic` says which), console or a kind of table."""

    line: int
    kind: str
    place: str = ""
    key: str | None = None
    payload: PayloadSpec | None = None
    mode: str = "append"
    partition_by: tuple[str, ...] = ()
    files: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PipelineSpec:
    """A file, understood."""

    header: Header
    name: str
    brokers: str | None
    inputs: tuple[InputSpec, ...]
    output: OutputSpec
    trigger: Mapping[str, str | bool]
    """As `DataStreamWriter.trigger` takes it; nothing means one batch after the other."""
    checkpoint: str
    session: Mapping[str, str]

    @property
    def is_python(self) -> bool:
        return self.header.path.endswith(".py")


def read_spec(path: str, text: str, variables: Mapping[str, str]) -> PipelineSpec:
    """A pipeline's file; PipelineError names the line of what is wrong."""
    return _Reader(read_header(path, text, NAMES, variables)).spec()


class _Reader:
    """Goes through a head."""

    def __init__(self, header: Header) -> None:
        self._header = header
        self._folder = Path(header.path).parent

    def spec(self) -> PipelineSpec:
        header = self._header
        self._check_names(header.entries, _TOP, "a pipeline")
        inputs = tuple(self._input(each) for each in header.entries if each.name == "in")
        outputs = [each for each in header.entries if each.name == "out"]
        if not inputs:
            raise header.error(1, "nothing comes in: write a comment such as `in logs: feed service-logs`")
        if not outputs:
            raise header.error(1, "nothing goes out: write a comment such as `out: feed errors`")
        self._check_once(inputs, outputs)
        if not any(line.strip() for line in header.text.splitlines()[header.body_line - 1 :]):
            raise header.error(header.body_line, "there is no query behind the head")
        name = self._single("name", Path(header.path).stem)
        return PipelineSpec(
            header,
            name,
            self._single("brokers", "") or None,
            inputs,
            self._output(outputs[0]),
            self._trigger(),
            self._place(self._single("checkpoint", f"checkpoints/{name}")),
            {each.argument or "": each.value for each in header.entries if each.name == "set"},
        )

    # Entries in general

    def _check_names(self, entries: Sequence[Entry], allowed: Sequence[str], what: str) -> None:
        takes_argument = {"in", "set", "option"}
        for each in entries:
            if each.name not in allowed:
                near = difflib.get_close_matches(each.label, allowed, n=1) or difflib.get_close_matches(
                    each.name, allowed, n=1
                )
                hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(allowed)}"
                raise self._header.error(each.line, f"{what} has no {each.label!r}{hint}")
            if (each.argument is not None) != (each.name in takes_argument):
                form = f"{each.name} NAME: …" if each.name in takes_argument else f"{each.name}: …"
                raise self._header.error(each.line, f"write it as `{form}`")
            if not each.value:
                raise self._header.error(each.line, f"{each.label!r} has no value")

    def _check_once(self, inputs: Sequence[InputSpec], outputs: Sequence[Entry]) -> None:
        if len(outputs) > 1:
            raise self._header.error(
                outputs[1].line,
                "there is one `out`: for several feeds write `out: feeds` and select a column topic",
            )
        names = [each.name for each in inputs]
        for each in inputs:
            if not each.name.isidentifier():
                raise self._header.error(
                    each.line, f"{each.name!r} is no name for a view: use letters, digits and _"
                )
            if names.count(each.name) > 1:
                raise self._header.error(each.line, f"there are two inputs with the name {each.name!r}")

    def _single(self, name: str, default: str) -> str:
        found = [each for each in self._header.entries if each.name == name]
        if len(found) > 1:
            raise self._header.error(found[1].line, f"{name!r} is said twice")
        if found and found[0].details:
            raise self._header.error(found[0].details[0].line, f"{name!r} has nothing below it")
        return found[0].value if found else default

    def _details(self, entry: Entry, allowed: Sequence[str], what: str) -> dict[str, Entry]:
        self._check_names(entry.details, allowed, what)
        found: dict[str, Entry] = {}
        for each in entry.details:
            if each.label in found:
                raise self._header.error(each.line, f"{each.label!r} is said twice")
            found[each.label] = each
        return found

    def _place(self, text: str) -> str:
        """A path, relative to the file; URIs stay as they are."""
        return text if "://" in text else str(self._folder / text)

    # What they mean

    def _input(self, entry: Entry) -> InputSpec:
        kind, _, rest = entry.value.partition(" ")
        rest = rest.strip()
        if kind in FILE_KINDS and rest:
            own = self._details(entry, _IN_FILES, f"an input of {kind} files")
            return InputSpec(
                entry.line,
                entry.argument or "",
                files_kind=kind,
                path=self._place(rest),
                options=_options(own),
            )
        if kind not in ("feed", "feeds") or not rest:
            raise self._header.error(
                entry.line,
                "an input is `feed TOPIC`, `feeds matching PATTERN` or files, as `parquet PATH`; "
                f"not {entry.value!r}",
            )
        own = self._details(entry, _IN_FEED, "an input feed")
        pattern = rest.removeprefix("matching ").strip() if rest.startswith("matching ") else None
        payload = self._payload(own)
        if "dead letters" in own and payload is None:
            line = own["dead letters"].line
            raise self._header.error(
                line, "dead letters are what cannot be parsed: say `json`, `avro` or `protobuf` too"
            )
        return InputSpec(
            entry.line,
            entry.argument or "",
            topics="" if pattern is not None else rest.replace(" ", ""),
            pattern=pattern,
            payload=payload,
            watermark=self._watermark(own.get("watermark")),
            start=own["start"].value if "start" in own else "earliest",
            dead_letters=own["dead letters"].value if "dead letters" in own else None,
            options=_options(own),
        )

    def _output(self, entry: Entry) -> OutputSpec:
        kind, _, place = entry.value.partition(" ")
        place = place.strip()
        if (kind == "feed" and place) or (kind == "feeds" and not place):
            own = self._details(entry, _OUT_FEED, "an output feed")
            return OutputSpec(
                entry.line,
                kind,
                place,
                key=own["key"].value if "key" in own else None,
                payload=self._payload(own),
                mode=self._mode(own, MODES),
                options=_options(own),
            )
        if kind == "console" and not place:
            own = self._details(entry, _OUT_CONSOLE, "an output to the console")
            return OutputSpec(entry.line, kind, mode=self._mode(own, (*MODES, "complete")))
        if kind in TABLE_KINDS and place:
            own = self._details(entry, _OUT_TABLE, "an output table")
            columns = own["partition by"].value if "partition by" in own else ""
            return OutputSpec(
                entry.line,
                kind,
                self._place(place),
                mode=self._mode(own, ("append",)),
                partition_by=tuple(filter(None, map(str.strip, columns.split(",")))),
                files=self._number(own["files"]) if "files" in own else None,
            )
        raise self._header.error(
            entry.line,
            "an output is `feed TOPIC`, `feeds` (by a column topic), `console`, or a table as "
            f"`{'|'.join(TABLE_KINDS)} PATH`; not {entry.value!r}",
        )

    def _payload(self, own: Mapping[str, Entry]) -> PayloadSpec | None:
        said = [own[kind] for kind in _PAYLOADS if kind in own]
        if len(said) > 1:
            raise self._header.error(said[1].line, f"a payload is {said[0].name} or {said[1].name}, not both")
        if not said:
            return None
        entry = said[0]
        if entry.name == "json":
            return PayloadSpec(entry.line, "json", entry.value)
        file, _, message = entry.value.partition(" ")
        if (entry.name == "protobuf") != bool(message.strip()):
            form = "protobuf: DESCRIPTOR_FILE MESSAGE" if entry.name == "protobuf" else "avro: SCHEMA_FILE"
            raise self._header.error(entry.line, f"write it as `{form}`")
        path = self._folder / file
        if not path.is_file():
            raise self._header.error(entry.line, f"there is no file {path}")
        return PayloadSpec(entry.line, entry.name, str(path), message.strip() or None)

    def _watermark(self, entry: Entry | None) -> tuple[str, str] | None:
        if entry is None:
            return None
        column, _, delay = (part.strip() for part in entry.value.partition(","))
        if not column or not re.fullmatch(r"\d+ [a-z]+", delay):
            raise self._header.error(entry.line, "write it as `watermark: COLUMN, 30 seconds`")
        return column, delay

    def _mode(self, own: Mapping[str, Entry], allowed: Sequence[str]) -> str:
        if "mode" not in own:
            return "append"
        mode = own["mode"].value
        if mode not in allowed:
            raise self._header.error(own["mode"].line, f"mode is {' or '.join(allowed)}, not {mode!r}")
        return mode

    def _number(self, entry: Entry) -> int:
        if not entry.value.isdecimal() or entry.value == "0":
            raise self._header.error(entry.line, f"{entry.name} is a number above 0, not {entry.value!r}")
        return int(entry.value)

    def _trigger(self) -> Mapping[str, str | bool]:
        said = self._single("trigger", "immediately")
        line = next((each.line for each in self._header.entries if each.name == "trigger"), None)
        forms: dict[str, Callable[[re.Match[str]], dict[str, str | bool]]] = {
            r"immediately": lambda _: {},
            r"available now": lambda _: {"availableNow": True},
            r"every (\d+ [a-z]+)": lambda match: {"processingTime": match[1]},
        }
        for form, made in forms.items():
            if match := re.fullmatch(form, said):
                return made(match)
        raise self._header.error(
            line, f"a trigger is `every 10 seconds`, `available now` or `immediately`, not {said!r}"
        )


def _options(own: Mapping[str, Entry]) -> dict[str, str]:
    return {each.argument or "": each.value for each in own.values() if each.name == "option"}


__all__ = ["InputSpec", "OutputSpec", "PayloadSpec", "PipelineError", "PipelineSpec", "read_spec"]
