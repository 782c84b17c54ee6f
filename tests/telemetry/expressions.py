"""What dashboards and rules ask Prometheus for, as it can be asked."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.telemetry.prometheus import PACKAGE, STRIMZI, VALUES

# There is no JVM, and nothing to tell of containers and volumes. Without TLS there are no certificates,
# without a remote store no copies, without quotas nobody whom one binds, without share groups none in flight.
_ELSEWHERE = re.compile(
    r"\b((jvm|container|kubelet|headrace_certificate)_"
    r"|kafka_server_(brokertopicmetrics_remote|(produce|fetch|request|controllermutation)_)"
    r"|kafka_server_sharepartitionmetrics_)"
)
_NAME = re.compile(r"\b(?:kafka|headrace|process)_\w+")
_QUERY_RESULT = re.compile(r"query_result\((.*)\)")
_LABEL_VALUES = re.compile(r"label_values\((.*), *\w+\)")
# An alert's expression is empty while all is well; what it compares must not be.
_COMPARISON = re.compile(r" *(==|!=|>|<) *[0-9.]+$")


def of_strimzi() -> list[str]:
    """Every panel and variable of Strimzi's dashboards."""
    found: list[str] = []
    for path in sorted(STRIMZI.glob("*.txt")):
        found += [line.split(" | ", 1)[1] for line in path.read_text().splitlines()[1:]]
    return _askable(found)


def of_strimzi_rules() -> list[str]:
    groups = yaml.safe_load((STRIMZI / "rules.yaml").read_text())["spec"]["groups"]
    return _askable(_of_rules(groups))


def of_own_rules() -> list[str]:
    return _askable(_of_rules(_own_groups()))


def own_rule(alert: str) -> dict[str, Any]:
    """One of the package's alerts, as it stands there."""
    [rule] = [each for group in _own_groups() for each in group["rules"] if each["alert"] == alert]
    found: dict[str, Any] = rule
    return found


def names_asked_by_own() -> set[str]:
    """Every metric that the package's rules and dashboard speak of."""
    asked = _of_rules(_own_groups()) + list(_of_panels(json.loads((PACKAGE / "dashboard.json").read_text())))
    return {name for each in asked for name in _NAME.findall(each)}


def _own_groups() -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = yaml.safe_load((PACKAGE / "alert-rules.yml").read_text())["groups"]
    return groups


def of_own_dashboard(path: Path = PACKAGE / "dashboard.json") -> list[str]:
    return _askable(list(_of_panels(json.loads(path.read_text()))))


def _of_rules(groups: list[dict[str, Any]]) -> list[str]:
    whole = [rule["expr"] for group in groups for rule in group["rules"]]
    return [_COMPARISON.sub("", part) for each in whole for part in each.split(" and ")]


def _of_panels(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if "expr" in node:
            yield node["expr"]
        if node.get("type") == "query":
            yield node["query"]
        for value in node.values():
            yield from _of_panels(value)
    elif isinstance(node, list):
        for value in node:
            yield from _of_panels(value)


def _askable(expressions: list[str]) -> list[str]:
    return [_plain(each) for each in dict.fromkeys(expressions) if not _ELSEWHERE.search(each)]


def _plain(expression: str) -> str:
    for form in (_QUERY_RESULT, _LABEL_VALUES):
        found = form.fullmatch(expression)
        if found is not None:
            expression = found[1]
    for name, value in sorted(VALUES.items(), reverse=True):  # the longer name first
        expression = expression.replace(name, value)
    return expression.replace("[10m]", "[1m]").replace("[1h]", "[1m]").replace("$__rate_interval", "1m")
