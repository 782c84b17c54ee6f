"""What holds a secret does not show it when it is printed: not in a log line, a traceback or an assertion."""

import dataclasses
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import headrace

SECRETS: Final = re.compile(
    r"password|passphrase|secret|hmac|(^|_)(jaas|proof|auth_bytes)"
    r"|^(stored|server|client|keystore|private)_key$"
)
"""Names of fields that are secrets wherever they stand."""

ALSO: Final = {
    # Settings and options as somebody gave them: passwords are among them.
    ("headrace.cli.pipeline_session", "SparkChoice", "config"),
    ("headrace.cli.start", "FleetPlan", "settings"),
    ("headrace.console.cluster_connection", "ClusterSpec", "settings"),
    ("headrace.node.config_providers", "Found", "value"),
    ("headrace.node.config_providers", "LookedUp", "values"),
    ("headrace.security.jaas", "JaasEntry", "options"),
    ("headrace.spark.loads.feed_load", "FeedLoad", "options"),
    ("headrace.spark.options", "ReadOptions", "settings"),
    ("headrace.spark.options", "ReadOptions", "store_settings"),
    ("headrace.spark.options", "WriteOptions", "settings"),
    ("headrace.spark.pipeline.spec", "InputSpec", "options"),
    ("headrace.spark.pipeline.spec", "OutputSpec", "options"),
    ("headrace.spark.segments.remote_tier", "StoreAddress", "settings"),
    ("headrace.wire.schemas.alter_configs", "AlterableConfig", "value"),
    ("headrace.wire.schemas.incremental_alter_configs", "AlterableConfig", "value"),
    ("headrace.wire.schemas.metadata_records", "ConfigRecord", "value"),
    # Bearer tokens, cookies, and the passwords of the console's login.
    ("headrace.console.http_server", "ConsoleRequest", "body"),
    ("headrace.console.http_server", "ConsoleRequest", "headers"),
    ("headrace.transport.http_listener", "HttpRequest", "headers"),
    # Requests and replies as they came, whatever they are.
    ("headrace.wire.schemas.envelope", "EnvelopeRequest", "request_data"),
    ("headrace.wire.schemas.envelope", "EnvelopeResponse", "response_data"),
    # Private keys.
    ("headrace.security.certificates", "Issued", "key"),
    ("headrace.security.stores", "KeyStore", "key"),
}
PACKAGE: Final = Path(headrace.__file__).parent
FIELD: Final = re.compile(r"^    (\w+): ", re.MULTILINE)
SHOWN: Final = "this is what would be seen"


def modules() -> Iterator[ModuleType]:
    """Those with a field that could be a secret: to import them all takes long."""
    for file in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(("headrace", *file.relative_to(PACKAGE).with_suffix("").parts))
        fields = FIELD.findall(file.read_text(encoding="utf-8"))
        if name not in {place[0] for place in ALSO} and not any(map(SECRETS.search, fields)):
            continue
        try:
            yield importlib.import_module(name)
        except ImportError as error:
            if (error.name or "").startswith("headrace"):
                raise
            continue  # an extra is not installed


def records() -> Iterator[tuple[type[Any], list[str]]]:
    """Their dataclasses, messages and named tuples, with the fields of each."""
    for module in modules():
        for each in vars(module).values():
            if not isinstance(each, type) or each.__module__ != module.__name__:
                continue
            if dataclasses.is_dataclass(each):
                yield each, [field.name for field in dataclasses.fields(each)]
            elif issubclass(each, tuple) and hasattr(each, "_fields"):
                yield each, list(each._fields)


def printed(record: type[Any], fields: list[str]) -> str:
    """One of these, with something to see in each field that could be a secret."""
    values = {name: SHOWN if is_secret(record, name) else None for name in fields}
    if issubclass(record, tuple):
        return repr(record._make(values[name] for name in fields))
    made = object.__new__(record)
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return repr(made)


def is_secret(record: type[Any], field: str) -> bool:
    place = (record.__module__, record.__qualname__, field)
    return place in ALSO or SECRETS.search(field) is not None


def test_no_record_shows_its_secrets() -> None:
    telling, places = [], set()
    for each, names in records():
        secrets = [name for name in names if is_secret(each, name)]
        places.update((each.__module__, each.__qualname__, name) for name in names)
        if secrets and SHOWN in printed(each, names):
            telling.append(f"{each.__module__}.{each.__qualname__}: {', '.join(secrets)}")
    assert not telling, "give field(repr=False), or a __repr__:\n" + "\n".join(telling)
    gone = {place for place in ALSO if place[0] in sys.modules} - places
    assert not gone, "ALSO is of what there is"
