"""Reads a pipeline's head: each entry is checked where it stands, and mistakes are told with their line."""

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from headrace.spark.pipeline.header import Header, HeaderEntry, read_header
from headrace.spark.pipeline.schedule import Schedule, read_schedule
from headrace.spark.pipeline.spec import (
    DEAD_LETTERS,
    TABLE_KINDS,
    TOMBSTONES,
    AlertSpec,
    ExpectSpec,
    InputSpec,
    OutputSpec,
    PayloadSpec,
    PipelineSpec,
    RegistrySpec,
    SubjectSpec,
    names_of,
    time_ms,
)

_TOP: Final = (
    *("name", "brokers", "registry", "in", "out", "trigger", "schedule", "alert", "checkpoint", "set"),
)
_PAYLOADS: Final = ("json", "avro", "protobuf")
_IN_FEED: Final = (*_PAYLOADS, "watermark", "start", "end", "dead letters", "option")
_IN_FILES: Final = ("option",)
_OUT_FEED: Final = (*_PAYLOADS, "key", "mode", "tombstones", "option", "from")
_OUT_TABLE: Final = ("partition by", "mode", "files", "schema", "key", "compact", "from")
_OUT_CONSOLE: Final = ("mode", "from")
_EXPECT: Final = "expect"
_REGISTRY: Final = ("user", "password")
NAMES: Final = tuple(dict.fromkeys((*_TOP, *_IN_FEED, _EXPECT, *_OUT_FEED, *_OUT_TABLE, *_REGISTRY)))

FILE_KINDS: Final = ("parquet", "json", "csv", "delta")
UPSERT_KINDS: Final = ("delta", "iceberg")
MODES: Final = ("append", "update")
SCHEMA_MODES: Final = ("evolve", "strict")
ALERTS: Final = ("lag", "bad rows")
_MADE: Final = "made"
_SUBJECT_WORDS: Final = ("subject", "version", "message", _MADE)
_SUBJECT_FORM: Final = "registry [subject NAME] [version N] [message NAME] [made]"
EXPECT_ACTIONS: Final = ("drop", "fail", DEAD_LETTERS)


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
        outputs = tuple(self._output(each) for each in header.entries if each.name == "out")
        if not inputs:
            raise header.error(1, "nothing comes in: write a comment such as `in logs: feed service-logs`")
        if not outputs:
            raise header.error(1, "nothing goes out: write a comment such as `out: feed errors`")
        self._check_inputs(inputs)
        self._check_outputs(inputs, outputs)
        if not any(line.strip() for line in header.text.splitlines()[header.body_line - 1 :]):
            raise header.error(header.body_line, "there is no query behind the head")
        name = self._single("name", Path(header.path).stem)
        return PipelineSpec(
            header,
            name,
            self._single("brokers", "") or None,
            inputs,
            outputs,
            self._trigger(inputs),
            self._place(self._single("checkpoint", f"checkpoints/{name}")),
            {each.argument or "": each.value for each in header.entries if each.name == "set"},
            self._registry([*inputs, *outputs]),
            self._schedule(),
            tuple(self._alert(each) for each in header.entries if each.name == "alert"),
        )

    # Entries in general

    def _check_names(self, entries: Sequence[HeaderEntry], allowed: Sequence[str], what: str) -> None:
        takes_argument = {"in", "set", "option"}
        may_take_argument = {"out"}
        for each in entries:
            if each.name not in allowed:
                near = difflib.get_close_matches(each.label, allowed, n=1) or difflib.get_close_matches(
                    each.name, allowed, n=1
                )
                hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(allowed)}"
                raise self._header.error(each.line, f"{what} has no {each.label!r}{hint}")
            if each.name in may_take_argument:
                pass
            elif (each.argument is not None) != (each.name in takes_argument):
                form = f"{each.name} NAME: …" if each.name in takes_argument else f"{each.name}: …"
                raise self._header.error(each.line, f"write it as `{form}`")
            if not each.value:
                raise self._header.error(each.line, f"{each.label!r} has no value")

    def _check_inputs(self, inputs: Sequence[InputSpec]) -> None:
        names = [each.name for each in inputs]
        for each in inputs:
            self._check_name(each.line, each.name)
            if names.count(each.name) > 1:
                raise self._header.error(each.line, f"there are two inputs with the name {each.name!r}")

    def _check_outputs(self, inputs: Sequence[InputSpec], outputs: Sequence[OutputSpec]) -> None:
        names = [each.name for each in outputs]
        for each in outputs:
            if each.name:
                self._check_name(each.line, each.name)
            if names.index(each.name) != outputs.index(each):
                what = f"two outputs with the name {each.name!r}" if each.name else "one `out` without a name"
                raise self._header.error(
                    each.line,
                    f"there is {what}: write `out NAME: …`, each with the rows of a view NAME"
                    if not each.name
                    else f"there are {what}: let one say `from: {each.source}`",
                )
            if each.source in {own.name for own in inputs} and self._header.path.endswith(".py"):
                raise self._header.error(each.line, f"{each.source!r} is an input: name a function")

    def _check_name(self, line: int, name: str) -> None:
        if not name.isidentifier():
            raise self._header.error(line, f"{name!r} is no name for a view: use letters, digits and _")

    def _single(self, name: str, default: str) -> str:
        found = [each for each in self._header.entries if each.name == name]
        if len(found) > 1:
            raise self._header.error(found[1].line, f"{name!r} is said twice")
        if found and found[0].details:
            raise self._header.error(found[0].details[0].line, f"{name!r} has nothing below it")
        return found[0].value if found else default

    def _details(
        self, entry: HeaderEntry, allowed: Sequence[str], what: str, near: Sequence[str] = ()
    ) -> dict[str, HeaderEntry]:
        self._check_names(entry.details, near or allowed, what)
        found: dict[str, HeaderEntry] = {}
        for each in entry.details:
            if each.label in found:
                raise self._header.error(each.line, f"{each.label!r} is said twice")
            found[each.label] = each
        return found

    def _place(self, text: str) -> str:
        """A path, relative to the file; URIs stay as they are."""
        return text if "://" in text else str(self._folder / text)

    # What they mean

    def _input(self, entry: HeaderEntry) -> InputSpec:
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
        expected = [each for each in entry.details if each.name == _EXPECT and each.argument is None]
        others = replace(entry, details=[each for each in entry.details if each not in expected])
        own = self._details(others, _IN_FEED, "an input feed", (*_IN_FEED, _EXPECT))
        pattern = rest.removeprefix("matching ").strip() if rest.startswith("matching ") else None
        payload = self._payload(own)
        if "dead letters" in own and payload is None:
            line = own["dead letters"].line
            raise self._header.error(
                line, "dead letters are what cannot be parsed: say `json`, `avro` or `protobuf` too"
            )
        if expected and payload is None:
            raise self._header.error(
                expected[0].line, "what is expected of fields: say `json`, `avro` or `protobuf` too"
            )
        if "end" in own and "start" in own and own["start"].value == "latest":
            raise self._header.error(own["end"].line, "what begins at the latest record has no end before it")
        return InputSpec(
            entry.line,
            entry.argument or "",
            topics="" if pattern is not None else rest.replace(" ", ""),
            pattern=pattern,
            payload=payload,
            watermark=self._watermark(own.get("watermark")),
            start=self._start(own["start"]) if "start" in own else "earliest",
            end=self._end(own["end"]) if "end" in own else None,
            dead_letters=own["dead letters"].value if "dead letters" in own else None,
            expects=tuple(self._expect(each, has_dead_letters="dead letters" in own) for each in expected),
            options=_options(own),
        )

    def _expect(self, entry: HeaderEntry, *, has_dead_letters: bool) -> ExpectSpec:
        condition, separator, action = entry.value.rpartition(" or ")
        if not separator or not condition.strip() or action.strip() not in EXPECT_ACTIONS:
            raise self._header.error(
                entry.line,
                f"write it as `expect: CONDITION or {'|'.join(EXPECT_ACTIONS)}`, not {entry.value!r}",
            )
        if action.strip() == DEAD_LETTERS and not has_dead_letters:
            raise self._header.error(entry.line, "say where to: write `dead letters: TOPIC` beside it")
        return ExpectSpec(entry.line, condition.strip(), action.strip())

    def _start(self, entry: HeaderEntry) -> str:
        """`earliest`, `latest`, or a time, which is told in milliseconds from here on."""
        if entry.value in ("earliest", "latest"):
            return entry.value
        return str(self._time_ms(entry, "`earliest`, `latest`"))

    def _end(self, entry: HeaderEntry) -> str:
        return str(self._time_ms(entry, "the first time not to be read:"))

    def _time_ms(self, entry: HeaderEntry, others: str) -> int:
        found = time_ms(entry.value)
        if found is None:
            raise self._header.error(
                entry.line,
                f"{entry.name} is {others} milliseconds or a time as 2026-01-31T12:00Z, not {entry.value!r}",
            )
        return found

    def _output(self, entry: HeaderEntry) -> OutputSpec:
        name = entry.argument or ""
        source = next((each.value for each in entry.details if each.name == "from"), name)
        return replace(self._written(entry), name=name, source=source)

    def _written(self, entry: HeaderEntry) -> OutputSpec:
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
                mode=self._one_of(own, "mode", MODES),
                tombstones=self._one_of(own, "tombstones", TOMBSTONES),
                options=_options(own),
            )
        if kind == "console" and not place:
            own = self._details(entry, _OUT_CONSOLE, "an output to the console")
            return OutputSpec(entry.line, kind, mode=self._one_of(own, "mode", (*MODES, "complete")))
        if kind in TABLE_KINDS and place:
            own = self._details(entry, _OUT_TABLE, "an output table")
            columns = own["partition by"].value if "partition by" in own else ""
            mode = self._one_of(own, "mode", ("append", "upsert"))
            self._check_upsert(entry, own, kind, mode)
            return OutputSpec(
                entry.line,
                kind,
                self._place(place),
                key=own["key"].value if "key" in own else None,
                mode=mode,
                partition_by=names_of(columns),
                files=self._number(own["files"]) if "files" in own else None,
                schema=self._one_of(own, "schema", SCHEMA_MODES),
                compact=self._compact(own["compact"], kind) if "compact" in own else None,
            )
        raise self._header.error(
            entry.line,
            "an output is `feed TOPIC`, `feeds` (by a column topic), `console`, or a table as "
            f"`{'|'.join(TABLE_KINDS)} PATH`; not {entry.value!r}",
        )

    def _check_upsert(self, entry: HeaderEntry, own: Mapping[str, HeaderEntry], kind: str, mode: str) -> None:
        if mode == "upsert" and kind not in UPSERT_KINDS:
            raise self._header.error(
                own["mode"].line, f"{kind} files cannot be changed: upserts need {' or '.join(UPSERT_KINDS)}"
            )
        if mode == "upsert" and "key" not in own:
            raise self._header.error(
                own["mode"].line, "`mode: upsert` needs a `key: COLUMN, …` that says which row is meant"
            )
        if mode != "upsert" and "key" in own:
            raise self._header.error(own["key"].line, f"a table's key is for `mode: upsert`, not for {mode}")

    def _compact(self, entry: HeaderEntry, kind: str) -> int:
        if kind == "parquet":
            raise self._header.error(entry.line, "small files are joined in a Delta or Iceberg table")
        return 0 if entry.value == "0" else self._number(entry)

    def _payload(self, own: Mapping[str, HeaderEntry]) -> PayloadSpec | None:
        said = [own[kind] for kind in _PAYLOADS if kind in own]
        if len(said) > 1:
            raise self._header.error(said[1].line, f"a payload is {said[0].name} or {said[1].name}, not both")
        if not said:
            return None
        entry = said[0]
        words = entry.value.split()
        if words[0] == "registry" and (len(words) == 1 or words[1] in _SUBJECT_WORDS):
            return self._registered(entry, words[1:])
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

    def _registered(self, entry: HeaderEntry, words: Sequence[str]) -> PayloadSpec:
        """`registry [subject NAME] [version N] [message NAME] [made]`."""
        found: dict[str, str] = {}
        left = list(words)
        while left:
            word = left.pop(0)
            if word not in _SUBJECT_WORDS or word in found or (word != _MADE and not left):
                raise self._header.error(entry.line, f"write it as `{entry.name}: {_SUBJECT_FORM}`")
            found[word] = "" if word == _MADE else left.pop(0)
        version = found.get("version")
        if version is not None and not version.isdecimal():
            raise self._header.error(entry.line, f"a version is a number, not {version!r}")
        if "message" in found and entry.name != "protobuf":
            raise self._header.error(entry.line, f"only protobuf has messages, not {entry.name}")
        subject = SubjectSpec(found.get("subject"), int(version) if version else None, _MADE in found)
        if subject.is_made and subject.version is not None:
            raise self._header.error(entry.line, "what is made of the query's columns has no version yet")
        return PayloadSpec(entry.line, entry.name, "", found.get("message"), subject)

    def _registry(self, users: Sequence[InputSpec | OutputSpec]) -> RegistrySpec | None:
        said = [each for each in self._header.entries if each.name == "registry"]
        if len(said) > 1:
            raise self._header.error(said[1].line, "'registry' is said twice")
        for each in users:
            if each.payload is None or each.payload.registered is None:
                continue
            if not said:
                raise self._header.error(
                    each.payload.line, "say where the registry is: `registry: http://HOST:8081`, or a folder"
                )
            self._check_subject(each, each.payload, each.payload.registered)
        if not said:
            return None
        own = self._details(said[0], _REGISTRY, "a registry")
        place = said[0].value
        return RegistrySpec(
            said[0].line,
            place if "://" in place else self._place(place),
            own["user"].value if "user" in own else None,
            own["password"].value if "password" in own else None,
        )

    def _check_subject(self, user: InputSpec | OutputSpec, payload: PayloadSpec, given: SubjectSpec) -> None:
        if isinstance(user, InputSpec):
            if given.is_made:
                raise self._header.error(payload.line, "an input's schema is there already: leave `made` out")
            has_topic = bool(user.topics) and "," not in user.topics
        else:
            has_topic = user.kind == "feed"
        if given.subject is None and not has_topic:
            raise self._header.error(
                payload.line, f"there is no one topic here: write `{payload.kind}: registry subject NAME`"
            )

    def _schedule(self) -> Schedule | None:
        said = [each for each in self._header.entries if each.name == "schedule"]
        if not said:
            return None
        text = self._single("schedule", "")
        try:
            found = read_schedule(text)
        except ValueError as error:
            raise self._header.error(said[0].line, str(error)) from error
        if self._single("trigger", "available now") != "available now":
            raise self._header.error(said[0].line, "a schedule is for `trigger: available now`")
        return found

    def _alert(self, entry: HeaderEntry) -> AlertSpec:
        match = re.fullmatch(rf"({'|'.join(ALERTS)}) above (\d+)", entry.value)
        if match is None:
            forms = " or ".join(f"`alert: {each} above NUMBER`" for each in ALERTS)
            raise self._header.error(entry.line, f"write it as {forms}, not {entry.value!r}")
        return AlertSpec(entry.line, match[1], int(match[2]))

    def _watermark(self, entry: HeaderEntry | None) -> tuple[str, str] | None:
        if entry is None:
            return None
        column, _, delay = (part.strip() for part in entry.value.partition(","))
        if not column or not re.fullmatch(r"\d+ [a-z]+", delay):
            raise self._header.error(entry.line, "write it as `watermark: COLUMN, 30 seconds`")
        return column, delay

    def _one_of(self, own: Mapping[str, HeaderEntry], name: str, allowed: Sequence[str]) -> str:
        """What is said under a name; the first that is allowed where nothing is."""
        if name not in own:
            return allowed[0]
        said = own[name].value
        if said not in allowed:
            raise self._header.error(own[name].line, f"{name} is {' or '.join(allowed)}, not {said!r}")
        return said

    def _number(self, entry: HeaderEntry) -> int:
        if not entry.value.isdecimal() or entry.value == "0":
            raise self._header.error(entry.line, f"{entry.name} is a number above 0, not {entry.value!r}")
        return int(entry.value)

    def _trigger(self, inputs: Sequence[InputSpec]) -> Mapping[str, str | bool]:
        is_bounded = any(each.end is not None for each in inputs)
        is_scheduled = any(each.name == "schedule" for each in self._header.entries)
        said = self._single("trigger", "available now" if is_bounded or is_scheduled else "immediately")
        line = next((each.line for each in self._header.entries if each.name == "trigger"), None)
        if is_bounded and said != "available now":
            raise self._header.error(line, "a run with an `end` is `trigger: available now`")
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


def _options(own: Mapping[str, HeaderEntry]) -> dict[str, str]:
    return {each.argument or "": each.value for each in own.values() if each.name == "option"}
