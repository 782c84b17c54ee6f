"""The table of what pages can ask for: method, path below a cluster, who answers, and what it changes.

A row with a `change` is refused by a read-only console, needs the session's token, and leaves an audit line;
a handler cannot forget any of that.
"""

import re
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from headrace.console.api import (
    brokers,
    configs,
    groups,
    messages,
    overview,
    pipelines,
    schemas,
    security,
    tiers,
    tokens,
    topics,
    transactions,
)
from headrace.console.visit import Visit

PageHandler = Callable[[Visit], Awaitable[Any]]


class ConsoleRoute(NamedTuple):
    """One row. `{name}` in the path is an argument; `change` is the verb of the audit line."""

    method: str
    path: str
    handler: PageHandler
    change: str = ""


ROUTES: Final = (
    ConsoleRoute("GET", "overview", overview.overview),
    ConsoleRoute("GET", "find", overview.find),
    ConsoleRoute("GET", "topics", topics.topics),
    ConsoleRoute("POST", "topics", topics.create_topic, "create topic"),
    ConsoleRoute("GET", "topics/{topic}", topics.topic),
    ConsoleRoute("DELETE", "topics/{topic}", topics.delete_topic, "delete topic"),
    ConsoleRoute("GET", "topics/{topic}/configs", configs.topic_configs),
    ConsoleRoute("PATCH", "topics/{topic}/configs", configs.alter_topic_configs, "alter configs of topic"),
    ConsoleRoute("GET", "topics/{topic}/tiers", tiers.tiers),
    ConsoleRoute("POST", "topics/{topic}/partitions", topics.add_partitions, "add partitions to topic"),
    ConsoleRoute("POST", "topics/{topic}/delete-records", topics.delete_records, "delete records of topic"),
    ConsoleRoute("GET", "topics/{topic}/election", topics.election),
    ConsoleRoute("POST", "topics/{topic}/elect", topics.elect_leaders, "elect preferred leaders of topic"),
    ConsoleRoute("GET", "topics/{topic}/messages", messages.messages),
    ConsoleRoute("POST", "topics/{topic}/messages", messages.produce, "produce to topic"),
    ConsoleRoute("GET", "topics/{topic}/tail", messages.tail),
    ConsoleRoute("GET", "topics/{topic}/keys", messages.keys_at),
    ConsoleRoute("GET", "topics/{topic}/value", messages.message_value),
    ConsoleRoute(
        "POST", "topics/{topic}/send-again", pipelines.send_again, "send dead letters again from topic"
    ),
    ConsoleRoute("GET", "groups", groups.groups),
    ConsoleRoute("GET", "groups/{group}", groups.group),
    ConsoleRoute("DELETE", "groups/{group}", groups.delete_group, "delete group"),
    ConsoleRoute("GET", "groups/{group}/configs", configs.group_configs),
    ConsoleRoute("PATCH", "groups/{group}/configs", configs.alter_group_configs, "alter configs of group"),
    ConsoleRoute("POST", "groups/{group}/plan", groups.plan),
    ConsoleRoute("POST", "groups/{group}/offsets", groups.reset, "reset offsets of group"),
    ConsoleRoute(
        "DELETE", "groups/{group}/offsets/{topic}", groups.delete_offsets, "delete offsets of group"
    ),
    ConsoleRoute("GET", "brokers", brokers.brokers),
    ConsoleRoute("GET", "brokers/{broker}/configs", configs.broker_configs),
    ConsoleRoute(
        "PATCH", "brokers/{broker}/configs", configs.alter_broker_configs, "alter configs of broker"
    ),
    ConsoleRoute("GET", "reassignments", brokers.reassignments),
    ConsoleRoute("POST", "reassignments", brokers.reassign, "reassign partition"),
    ConsoleRoute("GET", "pipelines", pipelines.pipelines),
    ConsoleRoute("GET", "transactions", transactions.transactions),
    ConsoleRoute("POST", "transactions/abort", transactions.abort_transaction, "abort transaction"),
    ConsoleRoute("GET", "transactions/hanging", transactions.look_for_hanging),
    ConsoleRoute(
        "POST", "transactions/abort-hanging", transactions.abort_hanging, "abort hanging transaction"
    ),
    ConsoleRoute("GET", "schemas", schemas.subjects),
    ConsoleRoute("GET", "schemas/ids/{id}", schemas.schema_of_id),
    ConsoleRoute("POST", "schemas/level", schemas.set_level, "set compatibility of all subjects"),
    ConsoleRoute("GET", "schemas/subjects/{subject}", schemas.subject),
    ConsoleRoute("POST", "schemas/subjects/{subject}", schemas.register, "register schema"),
    ConsoleRoute("DELETE", "schemas/subjects/{subject}", schemas.delete_subject, "delete subject"),
    ConsoleRoute("POST", "schemas/subjects/{subject}/check", schemas.check),
    ConsoleRoute("POST", "schemas/subjects/{subject}/level", schemas.set_level, "set compatibility"),
    ConsoleRoute("GET", "schemas/subjects/{subject}/versions/{version}", schemas.version),
    ConsoleRoute(
        "DELETE", "schemas/subjects/{subject}/versions/{version}", schemas.delete_version, "delete version"
    ),
    ConsoleRoute("GET", "acls", security.acls),
    ConsoleRoute("POST", "acls", security.create_acl, "create ACL"),
    ConsoleRoute("POST", "acls/delete", security.delete_acl, "delete ACL"),
    ConsoleRoute("GET", "users", security.users),
    ConsoleRoute("POST", "users", security.alter_user, "alter user"),
    ConsoleRoute("POST", "users/delete", security.delete_user, "delete user"),
    ConsoleRoute("GET", "tokens", tokens.tokens),
    ConsoleRoute("POST", "tokens", tokens.create_token, "create token"),
    ConsoleRoute("POST", "tokens/renew", tokens.renew_token, "renew token"),
    ConsoleRoute("POST", "tokens/expire", tokens.expire_token, "expire token"),
    ConsoleRoute("GET", "quotas", security.quotas),
    ConsoleRoute("POST", "quotas", security.alter_quota, "alter quota"),
)

_PATTERNS: Final = [
    (route, re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", route.path))) for route in ROUTES
]


def find_route(method: str, path: str) -> tuple[ConsoleRoute, dict[str, str]] | None:
    """The row of a path, with its arguments as they were meant; None where there is none."""
    for route, pattern in _PATTERNS:
        found = pattern.fullmatch(path)
        if found is not None and route.method == method:
            return route, {name: unquote(value) for name, value in found.groupdict().items()}
    return None
