"""`headrace log dump` and `describe`: what is in the files of logs, for people and for scripts."""

import dataclasses
import os
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any, Final, NamedTuple

import click

from headrace.base.ids import TopicPartition, uuid_text
from headrace.cli.command_group import CommandGroup
from headrace.cli.options import examples, json_option
from headrace.cli.output import print_json_line
from headrace.log.disk import Disk
from headrace.log.dump import Decode, DumpedBatch, DumpedRecord, Problem, dump_file
from headrace.log.system_disk import SystemDisk
from headrace.records.batch import Record
from headrace.records.codecs import Codec

_ID_BYTES: Final = 16


@click.group(
    cls=CommandGroup, epilog=examples("headrace log describe data", "headrace log dump data/orders-0")
)
def log() -> None:
    """Look into a log's files."""


@log.command(
    epilog=examples(
        "headrace log dump data/orders-0/00000000000000000000.log",
        "headrace log dump --records data/orders-0/*.log",
        "headrace log dump --decode metadata data/__cluster_metadata-0/*.log",
        "headrace log dump data/orders-0/00000000000000000000.index data/meta.properties",
        "headrace log dump data/orders-0",
        "headrace log dump --config server.properties data/orders-0",
        "headrace log dump --config server.properties s3://bucket/kafka/orders-ID/0",
        "headrace log dump --config server.properties orders-ID/0/OFFSET-ID.log",
    )
)
@click.argument("files", nargs=-1, required=True, type=click.Path(), metavar="FILE…")
@click.option("--records", "-r", is_flag=True, help="Also the records of each batch.")
@click.option(
    "--decode",
    type=click.Choice(["metadata", "offsets", "remote", "transactions"]),
    help="Read records as what the internal topics hold.",
)
@click.option(
    "--config",
    "-c",
    type=click.Path(exists=True, dir_okay=False),
    help="A broker's file, for its log directories and its remote store.",
)
@json_option
def dump(
    files: tuple[str, ...], records: bool, decode: str | None, config: str | None, as_json: bool
) -> None:
    """Print what log segments, indexes, snapshots and checkpoints hold.

    A FILE may be an object of a remote store: s3://…, gs://…, az://… or hdfs://…; or with --config its name
    in that broker's store, which may be a class of your own.

    Of a partition's folder the segments are listed, and those that it has in the remote store: offsets,
    bytes, and how far copying is behind. The records of __remote_log_metadata tell that where they lie in the
    same log directory, or in one of --config's; else the objects in --config's store do.

    Reads only, so a running node's files can be looked at. Ends with exit code 1 where a file is damaged.
    """
    decoder = None if decode is None else _DECODERS[decode]
    properties = None if config is None else _properties(config)
    problems = 0
    for path in files:
        if not as_json:
            click.echo(f"# {path}")
        try:
            disk, name = _located(path, properties)
            if disk.is_folder(name):
                _dump_folder(path, disk, name, properties, as_json)
                continue
            for item in dump_file(disk, name, records=records, decode=decoder):
                problems += isinstance(item, Problem)
                _print_item(path, item, as_json)
        except BrokenPipeError:
            raise  # whoever read it has seen enough: no fault of the file
        except FileNotFoundError as error:
            raise click.ClickException(f"{path}: {_why_missing(path) or error.strerror}") from error
        except (OSError, ValueError) as error:
            raise click.ClickException(f"{path}: {error}") from error
    if problems:
        click.echo(f"{problems} problem{'' if problems == 1 else 's'} found", err=True)
        sys.exit(1)


@log.command(
    epilog=examples("headrace log describe data", "headrace log describe --uncleanable data1 data2 --json")
)
@click.argument("folders", nargs=-1, required=True, type=click.Path(file_okay=False), metavar="FOLDER…")
@click.option("--uncleanable", is_flag=True, help="Only logs that compaction has given up.")
@json_option
def describe(folders: tuple[str, ...], uncleanable: bool, as_json: bool) -> None:
    """Describe the logs in log directories: their sizes, how far compaction has been, and where it gave up.

    Reads only, so a running node's folders can be looked at. Ends with exit code 1 where compaction has given
    a log up, and says why and what to do.
    """
    from headrace.cli.log_folders import describe_folders, print_logs

    try:
        found = describe_folders(SystemDisk(), folders)
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    given_up = [each for each in found if each.uncleanable is not None]
    print_logs(given_up if uncleanable else found, as_json=as_json)
    if given_up:
        sys.exit(1)


def _why_missing(path: str) -> str | None:
    """An index that is not there is no sign of damage where its segment is."""
    stem, suffix = os.path.splitext(path)
    if suffix in (".index", ".timeindex") and os.path.exists(f"{stem}.log"):
        return (
            "this segment has no index file: that of a segment which grows is in memory, and a log below "
            "index.interval.bytes needs none"
        )
    return None


def _properties(config: str) -> dict[str, str]:
    from headrace.node.config import read_properties_file

    return read_properties_file(config)


def _located(path: str, properties: dict[str, str] | None) -> tuple[Disk, str]:
    """Where a file or folder is, and its name there."""
    if "://" in path:
        return _behind_url(path, properties or {})
    if properties is not None and not os.path.isabs(path) and not os.path.exists(path):
        return _objects(properties), path.rstrip("/")
    return SystemDisk(), path.rstrip("/") or path


def _behind_url(path: str, properties: dict[str, str]) -> tuple[Disk, str]:
    from headrace.tiered.stores.object_disk import ObjectDisk
    from headrace.tiered.stores.opening import open_url, store_settings

    folder, _, name = path.rstrip("/").rpartition("/")
    settings = store_settings(properties)
    settings.pop("url", None)
    return ObjectDisk(open_url(folder, settings, SystemDisk(), setting="FILE")), name


def _objects(properties: dict[str, str]) -> Disk:
    """What is in the store of a broker with these settings."""
    from headrace.tiered.stores.object_disk import ObjectDisk
    from headrace.tiered.stores.opening import open_broker_store

    return ObjectDisk(open_broker_store(properties, SystemDisk()))


def _dump_folder(path: str, disk: Disk, name: str, properties: dict[str, str] | None, as_json: bool) -> None:
    from headrace.cli.log_tiers import dump_folder, dump_objects, print_copies, print_dump
    from headrace.tiered.stores.opening import names_store

    if not isinstance(disk, SystemDisk):
        print_copies(path, dump_objects(disk, name), as_json=as_json)
        return
    folder = os.path.abspath(name)
    log_dirs = [os.path.dirname(folder)]
    log_dirs += [each for each in _log_dirs(properties or {}) if each not in log_dirs and os.path.isdir(each)]
    open_objects = partial(_objects, properties) if properties and names_store(properties) else None
    print_dump(path, dump_folder(disk, folder, log_dirs, open_objects), as_json=as_json)


def _log_dirs(properties: dict[str, str]) -> list[str]:
    named = properties.get("log.dirs") or properties.get("log.dir") or ""
    return [os.path.abspath(each.strip()) for each in named.split(",") if each.strip()]


def _print_item(path: str, item: Any, as_json: bool) -> None:
    if as_json:
        print_json_line({"file": path, "kind": type(item).__name__, **_plain(item)})
    elif isinstance(item, Problem):
        click.echo(f"PROBLEM {item.text}")
    elif isinstance(item, DumpedBatch):
        for line in _batch_lines(item):
            click.echo(line)
    else:
        click.echo("  ".join(f"{name} {_text(value)}" for name, value in _fields(item)))


def _batch_lines(batch: DumpedBatch) -> Iterator[str]:
    header = batch.header
    flags = [
        word
        for word, is_set in (
            ("transactional", header.is_transactional),
            ("control", header.is_control),
            ("log append time", header.log_append_time),
        )
        if is_set
    ]
    codec = Codec(header.codec).name.lower() if header.codec in list(Codec) else f"codec {header.codec}"
    facts = [
        f"offsets {header.base_offset}–{header.last_offset}",
        f"records {header.record_count}",
        f"byte {batch.position}",
        f"size {header.size}",
        f"epoch {header.leader_epoch}",
        f"time {header.max_timestamp}",
        codec,
        *flags,
    ]
    if header.producer_id >= 0:
        facts.append(f"producer {header.producer_id}/{header.producer_epoch} from {header.base_sequence}")
    facts.append("crc good" if batch.crc_matches else "crc BAD")
    yield "  ".join(facts)
    for each in batch.records:
        yield "    " + _record_line(each)


def _record_line(dumped: DumpedRecord) -> str:
    record = dumped.record
    parts = [f"{record.offset}", f"time {record.timestamp}"]
    if dumped.control_type is not None:
        parts.append(f"control {dumped.control_type.name}")
    if dumped.decoded is not None:
        parts.append(_text(dumped.decoded))
        return "  ".join(parts)
    parts += [f"key {_text(record.key)}", f"value {_text(record.value)}"]
    parts += (f"header {name}={_text(value)}" for name, value in record.headers)
    return "  ".join(parts)


def _fields(item: Any) -> Iterator[tuple[str, Any]]:
    if dataclasses.is_dataclass(item):
        yield from ((field.name, getattr(item, field.name)) for field in dataclasses.fields(item))
    elif hasattr(item, "_asdict"):
        yield from item._asdict().items()
    else:
        yield "value", item


def _plain(item: Any) -> dict[str, Any]:
    return {name: _plain_value(value) for name, value in _fields(item)}


def _plain_value(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return _text(value)
    if isinstance(value, TopicPartition):
        return str(value)
    if dataclasses.is_dataclass(value) or hasattr(value, "_asdict"):
        return _plain(value)
    if isinstance(value, tuple | list):
        return [_plain_value(each) for each in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _text(value: Any) -> str:
    """A value for people: bytes as text where they are, messages with their fields."""
    if value is None:
        return "null"
    if isinstance(value, bytes | bytearray | memoryview):
        return _bytes_text(bytes(value))
    if isinstance(value, Keyed):
        return f"{_text(value.key)} = {_text(value.value)}"
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    if dataclasses.is_dataclass(value):
        return (
            f"{type(value).__name__}({', '.join(f'{name}={_text(each)}' for name, each in _fields(value))})"
        )
    return str(value)


def _bytes_text(data: bytes) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    if text.isprintable() and (text or not data):
        return text
    return uuid_text(data) if len(data) == _ID_BYTES else f"0x{data.hex()}"


class Keyed(NamedTuple):
    """A coordinator's record: what it is about, and what it says; null takes it back."""

    key: object
    value: object


def _decode_metadata(record: Record) -> object:
    from headrace.wire.record_frames import decode_metadata_record

    return None if record.value is None else decode_metadata_record(record.value)


def _decode_offsets(record: Record) -> object:
    from headrace.wire.record_frames import GROUP

    return _decode_keyed(record, GROUP)


def _decode_remote(record: Record) -> object:
    from headrace.wire.record_frames import REMOTE_LOG, decode_metadata_record

    return None if record.value is None else decode_metadata_record(record.value, REMOTE_LOG)


def _decode_transactions(record: Record) -> object:
    from headrace.wire.record_frames import TRANSACTION

    return _decode_keyed(record, TRANSACTION)


def _decode_keyed(record: Record, family: tuple[str, ...]) -> Keyed:
    from headrace.wire.record_frames import decode_key, decode_value

    key = decode_key(record.key or b"", family)
    return Keyed(key, decode_value(key, record.value, family))


_DECODERS: Final[dict[str, Decode]] = {
    "metadata": _decode_metadata,
    "offsets": _decode_offsets,
    "remote": _decode_remote,
    "transactions": _decode_transactions,
}
