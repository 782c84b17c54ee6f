"""`headrace debug bundle`: one archive for somebody who helps, with no secret in it.

What is in it: settings without secrets, the ends of log files, listings of folders (names, sizes and times;
no record of any topic), small files that say where logs are, what a cluster tells of itself, its metrics, and
what `headrace doctor` finds. What cannot be had is said in the archive and left out: it is made for the days
on which things do not answer.
"""

import contextlib
import importlib.metadata
import io
import json
import os
import platform
import sys
import tarfile
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from headrace.cli.command_config import command_config
from headrace.cli.command_group import CommandGroup
from headrace.cli.connecting import cluster_options, open_admin
from headrace.cli.options import examples, json_option
from headrace.cli.output import human_bytes, note, print_json
from headrace.cli.redaction import HIDDEN, Redaction
from headrace.cli.top_looking import SCRAPE_BYTES_MAX, SCRAPE_S, Looker, MetricsAddress, trusting
from headrace.clients import Admin

LOG_BYTES_MAX: Final = 10 << 20
"""Of each log file, from its end."""
FILE_BYTES_MAX: Final = 1 << 20
LISTED_MAX: Final = 200_000
TOPICS_MAX: Final = 1_000
"""Whose own settings are asked for, each with a request."""
OF_TOPIC: Final = 1  # DYNAMIC_TOPIC_CONFIG: set for the topic itself
PATIENCE_MS: Final = 10_000
PACKAGES: Final = ("headrace", "uvloop", "numpy", "numba", "cramjam", "zstandard", "cryptography", "pyspark")
PROPERTIES: Final = ".properties"
# They say where logs begin and end, and who a node is; no record is in them, and nobody's secret.
SMALL_FILES: Final = frozenset(
    {
        "meta.properties",
        "quorum-state",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        "log-start-offset-checkpoint",
        "cleaner-offset-checkpoint",
        ".kafka_cleanshutdown",
        ".headrace_uncleanable",
    }
)


@click.group(cls=CommandGroup, epilog=examples("headrace debug bundle --data data"))
def debug() -> None:
    """Collect what somebody who helps needs to see."""


class Bundle:
    """An archive that is filled part by part; every text goes through the redaction."""

    def __init__(self, archive: tarfile.TarFile, folder: str, redaction: Redaction) -> None:
        self._archive = archive
        self._folder = folder
        self._redaction = redaction
        self.names: list[str] = []
        self.missing: list[str] = []

    def add(self, name: str, text: str) -> None:
        if name in self.names:
            return  # a log file that was named and lies in a folder that was named
        data = self._redaction.text(text).encode(errors="replace")
        entry = tarfile.TarInfo(f"{self._folder}/{name}")
        entry.size, entry.mtime, entry.mode = len(data), int(time.time()), 0o600
        self._archive.addfile(entry, io.BytesIO(data))
        self.names.append(name)

    def add_json(self, name: str, value: object) -> None:
        self.add(name, json.dumps(value, ensure_ascii=False, indent=2, default=str) + "\n")

    @contextlib.contextmanager
    def part(self, what: str) -> Iterator[None]:
        """Something that may fail, without the rest."""
        try:
            yield
        except Exception as error:  # whatever it is: somebody wants to see the rest
            self.missing.append(self._redaction.text(f"{what}: {type(error).__name__}: {error}"))


@debug.command(
    epilog=examples(
        "headrace debug bundle                                     # the cluster at localhost:9092",
        "headrace debug bundle --data data --log-file headrace.log # a node on this machine, too",
        "headrace debug bundle --config server.properties --metrics 127.0.0.1:9404 -o case-17.tar.gz",
    )
)
@click.option("--output", "-o", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE.tar.gz")
@click.option(
    "--data",
    "-d",
    "data",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    multiple=True,
    help="A node's folder, or that of several; may be repeated.",
)
@click.option(
    "--config",
    "-c",
    "files",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    multiple=True,
    help="A node's settings; may be repeated.",
)
@click.option(
    "--log-file",
    "logs",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    multiple=True,
    help="A file that a node logs to; may be repeated.",
)
@click.option(
    "--metrics", "addresses", metavar="HOST:PORT", multiple=True, help="A node's /metrics; may be repeated."
)
@click.option(
    "--metrics-token",
    envvar="HEADRACE_METRICS_TOKEN",
    show_envvar=True,
    default="",
    metavar="TOKEN",
    help="What /metrics asks for.",
)
@click.option(
    "--metrics-ca",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="The authority (PEM) that the certificates of https:// addresses are from.",
)
@click.option("--no-cluster", is_flag=True, help="Ask no broker.")
@cluster_options
@json_option
def bundle(
    output: Path | None,
    data: tuple[Path, ...],
    files: tuple[str, ...],
    logs: tuple[Path, ...],
    addresses: tuple[str, ...],
    metrics_token: str,
    metrics_ca: str | None,
    no_cluster: bool,
    bootstrap: str,
    request_timeout_ms: int,
    as_json: bool,
) -> None:
    """Pack settings, logs, listings, metrics and what a cluster tells of itself, for somebody who helps.

    Secrets are left out: passwords and keys by the names of their settings, by how they look, and wherever
    else their values turn up. Names of topics, groups, users and hosts are in it, records are not.
    """
    stem = f"headrace-debug-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    path = output or Path(f"{stem}.tar.gz")
    redaction = _knowing_secrets(files, data, metrics_token)
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        raise click.ClickException(f"{path} is there already: give another name with --output") from None
    with os.fdopen(descriptor, "wb") as out, tarfile.open(fileobj=out, mode="w:gz") as archive:
        packed = Bundle(archive, stem, redaction)
        packed.add_json("machine.json", _machine())
        for number, file in enumerate(files):
            with packed.part(f"settings of {file}"):
                packed.add(f"settings/{number}-{Path(file).name}", _settings_text(file, redaction))
        for folder in data:
            _add_folder(packed, folder, redaction)
        for log in logs:
            with packed.part(f"log {log}"):
                packed.add(f"logs/{_flat(log)}", _end_of(log))
        for address in addresses:
            with packed.part(f"metrics of {address}"):
                packed.add(f"metrics/{_flat(Path(address))}.txt", _scrape(address, metrics_token, metrics_ca))
        if not no_cluster:
            _add_cluster(packed, bootstrap, min(request_timeout_ms, PATIENCE_MS))
        packed.add("README.txt", _readme(packed))
    _tell(path, packed, as_json)


def _tell(path: Path, packed: Bundle, as_json: bool) -> None:
    size = path.stat().st_size
    if as_json:
        print_json({"file": str(path), "bytes": size, "parts": packed.names, "missing": packed.missing})
        return
    click.echo(f"{path}: {len(packed.names)} files, {human_bytes(size)}")
    for each in packed.missing:
        note(f"left out: {each}")
    note("look through it before you send it: names of topics, groups, users and hosts are in it")


def _knowing_secrets(files: Iterable[str], folders: Iterable[Path], token: str) -> Redaction:
    """A redaction that has seen all settings there are: their secrets may be in anything that is packed."""
    redaction = Redaction()
    redaction.settings(command_config())
    redaction.remember([token])
    found = list(files)
    for folder in folders:
        with contextlib.suppress(OSError):
            found += [str(folder / path) for path, entry in _walk(folder) if entry.name.endswith(PROPERTIES)]
    for file in found:
        with contextlib.suppress(OSError, ValueError):  # it is said where it would be packed
            redaction.settings(_settings_of(file))
    return redaction


def _flat(path: Path) -> str:
    """A path as one name."""
    plain = str(path).removeprefix("https:/").removeprefix("http:/").strip("/")
    return plain.replace("/", "_").replace(":", "_")


def _settings_of(file: str) -> dict[str, str]:
    from headrace.node.properties_file import open_properties

    return {name: entry.value for name, entry in open_properties(file).entries.items()}


def _settings_text(file: str, redaction: Redaction) -> str:
    """Names and values; comments are left behind, since people write passwords into them."""
    shown = redaction.settings(_settings_of(file))
    return "".join(f"{name}={value}\n" for name, value in shown.items())


def _machine() -> dict[str, object]:
    import resource

    versions = {}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "time": datetime.now(UTC).isoformat(),
        "python": sys.version,
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "memory_bytes": memory,
        "open_files_max": resource.getrlimit(resource.RLIMIT_NOFILE),
        "packages": versions,
    }


def _add_folder(packed: Bundle, folder: Path, redaction: Redaction) -> None:
    with packed.part(f"folder {folder}"):
        lines = []
        for number, (path, entry) in enumerate(_walk(folder)):
            if number >= LISTED_MAX:
                packed.missing.append(f"folder {folder}: all but the first {LISTED_MAX} names")
                break
            stat = entry.stat(follow_symlinks=False)
            when = datetime.fromtimestamp(stat.st_mtime, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            kind = "/" if entry.is_dir(follow_symlinks=False) else ""
            lines.append(f"{stat.st_mode & 0o7777:04o} {stat.st_size:>14} {when} {path}{kind}\n")
            if entry.name in SMALL_FILES and entry.is_file(follow_symlinks=False):
                _add_small(packed, folder, Path(path))
            elif entry.name.endswith(PROPERTIES):
                with packed.part(f"settings in {path}"):
                    text = _settings_text(str(folder / path), redaction)
                    packed.add(f"settings/{_flat(folder / path)}", text)
            elif entry.name.endswith(".log") and _is_log_of_lines(entry):
                packed.add(f"logs/{_flat(folder / path)}", _end_of(folder / path))
        usage = os.statvfs(folder)
        total, free = usage.f_blocks * usage.f_frsize, usage.f_bavail * usage.f_frsize
        head = f"{folder}: {human_bytes(free)} free of {human_bytes(total)}\n"
        packed.add(f"folders/{_flat(folder)}.txt", head + "".join(lines))


def _is_log_of_lines(entry: "os.DirEntry[str]") -> bool:
    """A log file of a process, not a segment: those have an offset for a name."""
    return entry.is_file(follow_symlinks=False) and not entry.name.removesuffix(".log").isdecimal()


def _add_small(packed: Bundle, folder: Path, path: Path) -> None:
    with packed.part(f"file {folder / path}"), open(folder / path, "rb") as file:
        packed.add(f"files/{_flat(folder / path)}", file.read(FILE_BYTES_MAX).decode(errors="replace"))


def _walk(folder: Path, below: str = "") -> "Iterator[tuple[str, os.DirEntry[str]]]":
    with os.scandir(folder / below) as found:
        entries = sorted(found, key=lambda each: each.name)
    for entry in entries:
        path = f"{below}/{entry.name}".lstrip("/")
        yield path, entry
        if entry.is_dir(follow_symlinks=False):
            with contextlib.suppress(OSError):  # it was deleted meanwhile, or is not for us
                yield from _walk(folder, path)


def _end_of(log: Path) -> str:
    with open(log, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - LOG_BYTES_MAX))
        text = file.read(LOG_BYTES_MAX).decode(errors="replace")
    if size <= LOG_BYTES_MAX:
        return text
    return f"(the last {human_bytes(LOG_BYTES_MAX)} of {human_bytes(size)})\n{text.partition(chr(10))[2]}"


def _scrape(address: str, token: str, ca_file: str | None) -> str:
    url = MetricsAddress.parse(address).url
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    tls = trusting(ca_file) if ca_file else None
    with urllib.request.urlopen(request, timeout=SCRAPE_S, context=tls) as answer:
        text: bytes = answer.read(SCRAPE_BYTES_MAX)
    return text.decode(errors="replace")


def _add_cluster(packed: Bundle, bootstrap: str, timeout_ms: int) -> None:
    from headrace.cli.doctor_cluster import look_at_cluster
    from headrace.cli.top_figures import figures

    with packed.part(f"the cluster at {bootstrap}"), open_admin(bootstrap, timeout_ms) as admin:
        found = admin.describe_cluster()
        asked: dict[str, Callable[[], Any]] = {
            "cluster": found._asdict,
            "quorum": lambda: admin.describe_quorum()._asdict(),
            "topics": lambda: _rows(admin.describe_topics([each.name for each in admin.list_topics()])),
            "topic-settings": lambda: _topic_settings(packed, admin),
            "quotas": lambda: _rows(admin.describe_client_quotas()),
            "doctor": lambda: _rows(look_at_cluster(admin, bootstrap)),
            "top": lambda: figures(Looker(admin).look(), None).as_json(),
            "transactions": lambda: _rows(admin.list_transactions()),
            "reassignments": lambda: {str(each): to for each, to in admin.list_reassignments().items()},
        }
        for broker in found.brokers:
            asked[f"broker-{broker.node_id}-settings"] = partial(_broker_settings, admin, broker.node_id)
        for name, ask in asked.items():
            with packed.part(f"{name} of the cluster"):
                packed.add_json(f"cluster/{name}.json", ask())


def _broker_settings(admin: Admin, node_id: int) -> dict[str, str | None]:
    found = admin.describe_configs("broker", str(node_id))
    return {each.name: HIDDEN if each.sensitive else each.value for each in found}


def _topic_settings(packed: Bundle, admin: Admin) -> dict[str, dict[str, str | None]]:
    """What was set for topics themselves; those of brokers hold for the rest."""
    names = [each.name for each in admin.list_topics()]
    if len(names) > TOPICS_MAX:
        packed.missing.append(f"settings of topics: all but those of the first {TOPICS_MAX}")
    found = {}
    for name in names[:TOPICS_MAX]:
        settings = admin.describe_configs("topic", name)
        found[name] = {each.name: each.value for each in settings if each.source == OF_TOPIC}
    return {name: own for name, own in found.items() if own}


def _rows(found: Iterable[Any]) -> list[dict[str, Any]]:
    return [each._asdict() for each in found]


def _readme(packed: Bundle) -> str:
    return "\n".join(
        [
            "Made by `headrace debug bundle`. Values of passwords, keys and tokens are (hidden), and records",
            "of topics are not in it. Names of topics, groups, users and hosts are.",
            "",
            *packed.names,
            "",
            "Left out, because it could not be had:" if packed.missing else "Nothing was left out.",
            *packed.missing,
            "",
        ]
    )
