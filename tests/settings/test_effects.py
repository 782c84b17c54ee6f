"""What settings say about their effect, held against what the code reads."""

import re
from pathlib import Path

import headrace
from headrace.settings.broker import BROKER
from headrace.settings.not_yet import NOT_YET
from headrace.settings.topic import TOPIC

SOURCES = Path(headrace.__file__).parent
# Read by the settings' own code, which hands them on under other names (log_dirs, listeners, roles).
HANDED_ON = {
    "advertised.listeners",
    "broker.id",
    "controller.listener.names",
    "inter.broker.listener.name",
    "inter.broker.protocol.version",
    "listener.security.protocol.map",
    "log.dir",
    "metadata.log.dir",
    "process.roles",
    "remote.log.metadata.manager.impl.prefix",
    "security.inter.broker.protocol",
}


def read_by_the_code() -> set[str]:
    """Settings whose names stand in the broker's code outside of the tables; start-up defaults do not count.

    Clients, those of Spark and of the simulator, have settings of their own, some under the same names.
    """
    quoted: set[str] = set()
    for path in SOURCES.rglob("*.py"):
        room = path.relative_to(SOURCES).parts[0]
        if (
            room not in ("settings", "clients", "cli", "spark", "testing")
            and path != SOURCES / "node/config.py"
        ):
            quoted.update(re.findall(r'"([a-z][a-z0-9.]+)"', path.read_text()))
    return quoted & BROKER.keys()


def test_no_setting_that_is_read_says_that_it_has_no_effect() -> None:
    liars = sorted(name for name in read_by_the_code() if BROKER[name].effect)
    assert not liars, "take their notes out of settings/not_yet.py, or of their table"


def test_every_setting_that_nothing_reads_says_so() -> None:
    stand_ins = {synonym.name for setting in TOPIC.values() for synonym in setting.synonyms}
    silent = BROKER.keys() - read_by_the_code() - stand_ins - HANDED_ON
    assert not sorted(name for name in silent if not BROKER[name].effect), "note them in settings/not_yet.py"


def test_every_line_about_what_is_missing_fits_something() -> None:
    for line in NOT_YET:
        assert any(name == line or (line.endswith(".") and name.startswith(line)) for name in BROKER), line
