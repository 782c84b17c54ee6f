"""Protobuf schemas as registries have them: text, or a file's descriptor in base64; as descriptor sets.

Text is compiled by protoc, which `grpcio-tools` brings as a wheel. What it imports are the schema's
references, by the names that the text has for them; Google's own types come with the libraries.
"""

import base64
import binascii
import importlib
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from headrace.schemas.errors import PayloadError
from headrace.schemas.registry import RegisteredSchema

# The name of a schema's own file; references have theirs.
MAIN: Final = "registered.proto"
_GOOGLE: Final = "google/protobuf/"


@lru_cache(maxsize=256)
def descriptor_set(schema: RegisteredSchema) -> bytes:
    """All files, what is imported first; PayloadError where it is no schema."""
    from google.protobuf import descriptor_pb2

    if schema.kind != "PROTOBUF":
        raise PayloadError(f"schema {schema.id} is {schema.kind}, not PROTOBUF")
    own = _file(schema.text)
    if own is None:
        return _compiled(schema)
    files = []
    for name, text in schema.references:
        file = _file(text)
        if file is None:
            raise PayloadError(f"schema {schema.id} is a descriptor, but {name}, which it imports, is text")
        file.name = name
        files.append(file)
    own.name = MAIN
    found = descriptor_pb2.FileDescriptorSet(file=[*_googles([*files, own]), *files, own])
    return bytes(found.SerializeToString())


def main_file(files: bytes) -> Any:
    """The schema's own file in its set."""
    from google.protobuf import descriptor_pb2

    return descriptor_pb2.FileDescriptorSet.FromString(files).file[-1]


def message_name(files: bytes, indexes: Sequence[int]) -> str:
    """The full name of the message that a path leads to; ValueError where it leads nowhere."""
    file = main_file(files)
    names = [file.package] if file.package else []
    inner = file.message_type
    for index in indexes:
        if not 0 <= index < len(inner):
            raise ValueError(f"the schema has no message at {list(indexes)}")
        names.append(inner[index].name)
        inner = inner[index].nested_type
    return ".".join(names)


def message_indexes(files: bytes, name: str) -> tuple[int, ...]:
    """The path to a message of the schema's own file; PayloadError where it is not there."""
    file = main_file(files)
    wanted = name.removeprefix(f"{file.package}." if file.package else "").split(".")
    found: list[int] = []
    inner = file.message_type
    for each in wanted:
        at = next((at for at, own in enumerate(inner) if own.name == each), None)
        if at is None:
            there = ", ".join(f"{file.package}.{own.name}".lstrip(".") for own in file.message_type)
            raise PayloadError(f"the schema has no message {name}; it has {there}")
        found.append(at)
        inner = inner[at].nested_type
    return tuple(found)


@lru_cache(maxsize=1024)
def message_class(descriptors: bytes, name: str) -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory, timestamp_pb2

    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(descriptors)
        pool = descriptor_pool.DescriptorPool()
        named = {each.name for each in files.file}
        if timestamp_pb2.DESCRIPTOR.name not in named:
            pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
        for each in files.file:
            pool.Add(each)
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
    except KeyError:
        there = sorted(
            f"{each.package}.{own.name}".lstrip(".") for each in files.file for own in each.message_type
        )
        raise PayloadError(f"the descriptor has no message {name}; it has {', '.join(there)}") from None
    except (message.DecodeError, TypeError) as error:
        raise PayloadError(
            f"this is not a complete descriptor set: {error}; protoc writes one with --include_imports "
            "--descriptor_set_out FILE"
        ) from error


def _file(text: str) -> Any:
    """A file's descriptor in base64; None where it is text."""
    from google.protobuf import descriptor_pb2, message

    try:
        found = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, message.DecodeError):
        return None
    return found


def _googles(files: Sequence[Any]) -> list[Any]:
    """Google's own files that these import and do not have."""
    from google.protobuf import descriptor_pb2

    there = {each.name for each in files}
    found: dict[str, Any] = {}

    def add(name: str) -> None:
        if not name.startswith(_GOOGLE) or name in there or name in found:
            return
        try:
            module = importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
        except ImportError:
            raise PayloadError(f"there is no {name}, which a schema imports") from None
        own = descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
        for each in own.dependency:
            add(each)
        found[name] = own

    for file in files:
        for each in file.dependency:
            add(each)
    return list(found.values())


def _compiled(schema: RegisteredSchema) -> bytes:
    try:
        import grpc_tools
        from grpc_tools import protoc
    except ImportError as error:
        raise PayloadError(
            f"Protobuf schemas as text need protoc ({error}): pip install grpcio-tools"
        ) from error
    with tempfile.TemporaryDirectory(prefix="headrace-proto-") as work:
        folder = Path(work) / "schemas"
        for name, text in ((MAIN, schema.text), *schema.references):
            path = (folder / name).resolve()
            if not path.is_relative_to(folder.resolve()):
                raise PayloadError(f"schema {schema.id} imports {name!r}, which is no name of a file")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        target = Path(work) / "set"
        googles = Path(grpc_tools.__file__).parent / "_proto"
        failed = protoc.main(
            [
                "protoc",
                f"-I{folder}",
                f"-I{googles}",
                "--include_imports",
                f"--descriptor_set_out={target}",
                MAIN,
            ]
        )
        if failed:
            raise PayloadError(
                f"schema {schema.id} is not a Protobuf schema that protoc takes; its lines above say why"
            )
        return target.read_bytes()
