"""The first opinion: Apache Kafka's own classes read what we write, and write and mean the same.

A small Java program (RoundTrip.java) is given random messages of every version of every schema, records of
the metadata log and of the coordinators included. Its JSON is compared field by field with our object, and so
are the defaults of every message and struct.
"""

import base64
import io
import json
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from headrace.base.error_codes import RETRIABLE, ErrorCode
from headrace.base.ids import uuid_text
from headrace.wire.codec import encode
from headrace.wire.plan import FieldPlan, StructPlan, plan_message
from tests.compat import prepare

from .messages import MESSAGES, Randomizer, versions_of

PEERS = Path(os.environ.get("PEERS_HOME", Path.home() / ".cache" / "peers"))
LIBS = PEERS / "kafka" / "4.3.1" / "libs"
NEWEST_CLIENT = "4.4.0"
"""Requests are those of this client; records are those of the server whose jars are in LIBS."""
SAMPLES = 3

pytestmark = [
    pytest.mark.java,
    pytest.mark.skipif(shutil.which("java") is None, reason="no java on the path"),
    pytest.mark.skipif(not LIBS.is_dir(), reason=f"Apache Kafka's jars are not in {LIBS}"),
]


class Sample(NamedTuple):
    version: int
    message: Any
    data: bytes | None  # None asks for defaults


class Answer(NamedTuple):
    is_read: bool
    data: bytes  # or the error
    json: Any


def samples(cls: type[Any]) -> Iterator[Sample]:
    for version in versions_of(cls):
        randomizer = Randomizer(f"kafka {cls.__name__} {version}")
        for _ in range(SAMPLES):
            message = randomizer.message(cls, version)
            yield Sample(version, message, encode(message, version))
        yield Sample(version, cls(), None)


class Opinion(NamedTuple):
    """What Kafka says to all samples, and of errors: number, name, and whether a client may try again."""

    answers: dict[str, list[Answer]]
    errors: list[str]


@pytest.fixture(scope="module")
def opinion() -> Opinion:
    """Asked of one Java process."""
    questions = io.BytesIO()
    for cls in MESSAGES:
        name = cls.__name__.encode()
        for sample in samples(cls):
            questions.write(struct.pack(">H", len(name)) + name)
            questions.write(struct.pack(">h", sample.version))
            size = -1 if sample.data is None else len(sample.data)
            questions.write(struct.pack(">i", size) + (sample.data or b""))
    questions.write(b"\0\0")
    program = Path(__file__).with_name("RoundTrip.java")
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{_client_jars()}/*:{LIBS}/*", str(program)]
    done = subprocess.run(command, input=questions.getvalue(), capture_output=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr.decode()
    out = io.BytesIO(done.stdout)
    answers = {cls.__name__: [read_answer(out) for _ in samples(cls)] for cls in MESSAGES}
    return Opinion(answers, out.read().decode().splitlines())


@pytest.fixture(scope="module")
def answers(opinion: Opinion) -> dict[str, list[Answer]]:
    return opinion.answers


def _client_jars() -> Path:
    try:
        return prepare.jars(f"clients-{NEWEST_CLIENT}", f"org.apache.kafka:kafka-clients:{NEWEST_CLIENT}")
    except prepare.UnavailableError as reason:
        pytest.skip(str(reason))


def read_answer(out: io.BytesIO) -> Answer:
    is_read = out.read(1) == b"\1"
    data = read_bytes(out)
    return Answer(is_read, data, json.loads(read_bytes(out)) if is_read else None)


def read_bytes(out: io.BytesIO) -> bytes:
    (size,) = struct.unpack(">i", out.read(4))
    return out.read(size)


EVERY = pytest.mark.parametrize("cls", [pytest.param(cls, id=cls.__name__) for cls in MESSAGES])


@EVERY
def test_kafka_reads_and_writes_the_same(cls: type[Any], answers: dict[str, list[Answer]]) -> None:
    for sample, answer in zip(samples(cls), answers[cls.__name__], strict=True):
        assert answer.is_read, f"v{sample.version}: {answer.data.decode()}"
        if sample.data is not None:
            assert answer.data == sample.data, f"v{sample.version}"
            plan = plan_message(cls, sample.version)
            assert struct_json(plan, sample.message) == folded(answer.json), f"v{sample.version}"


@EVERY
def test_defaults_are_those_of_kafka(cls: type[Any], answers: dict[str, list[Answer]]) -> None:
    for sample, answer in zip(samples(cls), answers[cls.__name__], strict=True):
        if sample.data is None:
            plan = plan_message(cls, sample.version)
            theirs = dict(answer.json)
            assert struct_json(plan, cls()) == folded(theirs.pop("")), f"v{sample.version}"
            for inner in structs_in(plan):
                if not has_mandatory_records(inner):
                    name = their_name(inner.cls.__name__, theirs)
                    assert struct_json(inner, inner.cls()) == folded(theirs[name]), (
                        f"{name} v{sample.version}"
                    )


def test_errors_are_those_of_kafka(opinion: Opinion) -> None:
    ours = [f"{code.value} {code.name} {str(code in RETRIABLE).lower()}" for code in ErrorCode]
    assert sorted(ours) == sorted(opinion.errors)


def their_name(name: str, theirs: dict[str, Any]) -> str:
    """Where two structs of a file share a name in Kafka, ours have a prefix."""
    return name if name in theirs else next(other for other in theirs if name.endswith(other))


def has_mandatory_records(plan: StructPlan) -> bool:
    """Kafka's default for such a field is null, which it cannot show; ours is empty."""
    return any(field.spec.wire.name == "records" and not field.is_nullable for field in plan.fields)


def structs_in(plan: StructPlan) -> Iterator[StructPlan]:
    for field in plan.fields + plan.tagged:
        if field.struct is not None:
            yield field.struct
            yield from structs_in(field.struct)


# Kafka 4.4's names of fields that were called otherwise until then.
RENAMED = {
    "generationidormemberepoch": "generationid",
    "acceptablerecoverylaglegacy": "acceptablerecoverylag",
}


def fold(name: str) -> str:
    """Kafka's JSON has camel case and folds acronyms its own way."""
    folded_name = name.replace("_", "").lower()
    return RENAMED.get(folded_name, folded_name)


def folded(value: Any) -> Any:
    if isinstance(value, dict):
        return {fold(key): folded(inner) for key, inner in value.items()}
    return [folded(inner) for inner in value] if isinstance(value, list) else value


def struct_json(plan: StructPlan, value: Any) -> dict[str, Any]:
    """A struct as Kafka would show it: tagged fields at their defaults are left out."""
    shown: dict[str, Any] = {}
    for field in plan.fields:
        inner = getattr(value, field.spec.name)
        if field.spec.wire.name == "records" and inner is not None:
            shown[fold(field.spec.name) + "sizeinbytes"] = len(inner)
        else:
            shown[fold(field.spec.name)] = field_json(field, inner)
    for field in plan.tagged:
        inner = getattr(value, field.spec.name)
        if inner != field.spec.make_default():
            shown[fold(field.spec.name)] = field_json(field, inner)
    return shown


def field_json(field: FieldPlan, value: Any) -> Any:
    if value is None:
        return None
    if field.spec.is_array:
        return [value_json(field, element) for element in value]
    return value_json(field, value)


def value_json(field: FieldPlan, value: Any) -> Any:
    if field.struct is not None:
        return struct_json(field.struct, value)
    if field.spec.wire.name == "uuid":
        return uuid_text(value)
    if field.spec.wire.name == "bytes":
        return base64.b64encode(value).decode()
    return value
