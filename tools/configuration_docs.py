"""Writes docs/configuration.md from the tables of settings: `python tools/configuration_docs.py [--check]`.

Every setting is there with its meaning, default, whether a running broker takes a new value, and what it does
here. `--check` writes nothing and fails where the file is not what the code says.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from headrace.clients.config import TABLES
from headrace.settings.broker import BROKER
from headrace.settings.definition import NoDefault, Setting, Update, Value
from headrace.settings.group import GROUP
from headrace.settings.topic import TOPIC

PATH: Final = Path(__file__).resolve().parents[1] / "docs/configuration.md"

HEAD: Final = """\
# Configuration

<!-- Written by tools/configuration_docs.py from the tables in src/headrace/settings and src/headrace/clients. -->

Names, defaults and meanings are Apache Kafka's. A broker reads them from a `server.properties` (`headrace start
--config FILE`) or from `--set name=value`; topics, groups and running brokers take changes with `headrace config
alter`. A value that does not fit is refused, with what would have been right. So is a name that does not exist on the
command line; in a file it is a warning with the nearest known name, unless `--strict` is given.

**Dynamic**: *no* needs a restart, *broker* can change on one running broker, *cluster* on all at once. **Here**
says so where headrace takes a setting and nothing depends on it; where it is empty the setting does what it says.

- [Brokers](#brokers) · [Topics](#topics) · [Groups](#groups) · [Producers](#producers) · [Consumers](#consumers) ·
  [Administrators](#administrators)
"""

# Sections of the broker's settings, by the beginnings of their names; the first that fits has the setting.
SECTIONS: Final = (
    (
        "Node and listeners",
        (
            "node.",
            "broker.",
            "process.",
            "listener",
            "advertised",
            "early.",
            "inter.",
            "host",
            "port",
            "metadata.",
        ),
    ),
    ("Quorum and controller", ("controller.", "controlled.", "unstable.", "initial.broker", "server.max")),
    (
        "Connections and requests",
        ("socket.", "connection", "max.connection", "queued.", "num.", "request.", "fetch."),
    ),
    (
        "Replication",
        ("replica", "leader.", "auto.leader", "unclean.", "min.insync", "default.replication", "follower."),
    ),
    (
        "Logs and topics",
        ("log.", "compression.", "auto.create", "delete.", "message.", "cordoned.", "create.", "alter."),
    ),
    ("Remote tier", ("remote.", "rsm.", "rlmm.")),
    ("Groups", ("group.", "offsets.", "offset.", "consumer.")),
    ("Share groups", ("share.",)),
    ("Transactions and producers", ("transaction", "producer.")),
    ("Authentication", ("sasl.", "authorizer", "super.", "delegation.", "allow.", "principal.", "password.")),
    ("TLS", ("ssl.", "security.")),
    ("Quotas", ("quota.", "client.quota")),
)
DYNAMIC: Final = {Update.READ_ONLY: "no", Update.PER_BROKER: "broker", Update.CLUSTER_WIDE: "cluster"}


def page() -> str:
    """The whole page."""
    parts = [HEAD, "## Brokers\n"]
    left = {name: setting for name, setting in BROKER.items() if not setting.internal}
    for title, beginnings in SECTIONS:
        found = {name: left.pop(name) for name in sorted(left) if name.startswith(beginnings)}
        parts += [f"### {title}\n", *_table(found, dynamic=True)]
    parts += ["### Other\n", *_table(left, dynamic=True)]
    parts += ["## Topics\n", "A broker setting in brackets decides where the topic is silent.\n"]
    parts += _table(TOPIC, dynamic=False)
    parts += ["## Groups\n", "A broker setting in brackets decides where the group is silent.\n"]
    parts += _table(GROUP, dynamic=False)
    titles = {"producer": "Producers", "consumer": "Consumers", "admin": "Administrators"}
    for kind, title in titles.items():
        parts += [f"## {title}\n", *_table(TABLES[kind], dynamic=False)]
    return "\n".join(parts)


def _table(settings: Mapping[str, Setting], *, dynamic: bool) -> Iterator[str]:
    shown = [settings[name] for name in sorted(settings) if not settings[name].internal]
    if not shown:
        return
    titles = ["setting", "default", *(["dynamic"] if dynamic else []), "meaning", "here"]
    rows = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    for setting in shown:
        cells = [f"`{setting.name}`", _default(setting)]
        if dynamic:
            cells.append(DYNAMIC[setting.update])
        cells += [_meaning(setting), setting.effect and f"No effect: {setting.effect}"]
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    yield "\n".join(rows) + "\n"


def _default(setting: Setting) -> str:
    if isinstance(setting.default, NoDefault):
        return "*required*"
    return f"`{_shown(setting.default)}`" if setting.default not in (None, "", ()) else ""


def _shown(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _meaning(setting: Setting) -> str:
    """What it does, its type and bounds, and who decides where it is silent."""
    kind = str(setting.kind)
    if setting.check is not None:
        kind += f": {setting.check.allowed}"
    told = f"{setting.doc} *({kind})*"
    names = _names(synonym.name for synonym in setting.synonyms)
    return f"{told} [{names}]" if names else told


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def main() -> int:
    wanted = page()
    if "--check" not in sys.argv[1:]:
        PATH.write_text(wanted)
        return 0
    if PATH.exists() and PATH.read_text() == wanted:
        return 0
    print(f"{PATH.name} is not what the code says: run python tools/configuration_docs.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
