"""Options `kafka.*`: settings of the clients, under the names that Kafka's own clients have.

Most are settings of ours and checked by their table. Some would work against source or sink, and are refused
with what to do instead. Some belong to the inside of Kafka's Java client and change nothing about what is
read or written: a query that brings them along from `format("kafka")` is told so in the log and runs. All
others are unknown.
"""

import logging
from collections.abc import Mapping
from typing import Final

from headrace.clients.configuration import ClientConfig
from headrace.settings.definition import Setting, SettingError
from headrace.spark.option_values import OptionError, unknown_option

log = logging.getLogger(__name__)

CLIENT_PREFIX: Final = "kafka."

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
        elif name != "security.protocol":
            raise unknown_option(option, [CLIENT_PREFIX + each for each in table], "Kafka")
        elif value.upper() != "PLAINTEXT":
            raise OptionError(f"option {option}={value}: only PLAINTEXT is spoken yet")
    if "bootstrap.servers" in found:
        try:
            ClientConfig(table, found)
        except SettingError as error:
            raise OptionError(f"option kafka.{error}") from None
    return found
