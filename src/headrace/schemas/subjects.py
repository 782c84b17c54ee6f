"""A registry's subjects as people look at them and change them: versions, texts, compatibility levels.

A folder of schemas has subjects too; its versions are its files in the order of their ids, and it takes no
changes by itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from headrace.schemas.errors import RegistryError, UnknownSchemaError
from headrace.schemas.registry import Registry

LEVELS: Final = (
    *("BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE"),
    *("FULL", "FULL_TRANSITIVE", "NONE"),
)


class SubjectVersion(NamedTuple):
    """One version of a subject. `references` are names, subjects and versions, as the registry has them."""

    subject: str
    version: int
    id: int
    kind: str
    text: str
    references: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class Subjects:
    """See above. Every function blocks, and raises what `Registry.ask` raises."""

    registry: Registry

    @property
    def is_folder(self) -> bool:
        return self.registry.folder is not None

    def names(self) -> list[str]:
        if self.registry.folder is not None:
            return sorted({name for name, _ in self.registry.folder})
        return sorted(map(str, self.registry.ask("GET", "subjects")))

    def versions(self, subject: str) -> list[int]:
        if self.registry.folder is not None:
            return list(range(1, len(self._of_folder(subject)) + 1))
        return [int(each) for each in self.registry.ask("GET", f"{_path(subject)}/versions")]

    def version(self, subject: str, number: int) -> SubjectVersion:
        if self.registry.folder is not None:
            own = self._of_folder(subject)
            if not 0 < number <= len(own):
                raise UnknownSchemaError(f"{self.registry.place} has no version {number} of {subject}")
            schema = own[number - 1]
            return SubjectVersion(subject, number, schema.id, schema.kind, schema.text)
        found = self.registry.ask("GET", f"{_path(subject)}/versions/{number}")
        kind = found.get("schemaType") or "AVRO"
        references = found.get("references") or ()
        return SubjectVersion(subject, number, int(found["id"]), kind, found["schema"], references)

    def _of_folder(self, subject: str) -> list[Any]:
        own = [schema for name, schema in self.registry.folder or () if name == subject]
        if not own:
            raise UnknownSchemaError(f"{self.registry.place} has no subject {subject}")
        return own

    def level(self, subject: str | None = None) -> str | None:
        """The compatibility level of a subject, None where it has none of its own; or the registry's."""
        if self.is_folder:
            return None
        path = "config" if subject is None else f"config/{_quoted(subject)}"
        try:
            return str(self.registry.ask("GET", path)["compatibilityLevel"])
        except UnknownSchemaError:
            return None

    def set_level(self, level: str | None, subject: str | None = None) -> None:
        """None takes a subject's own away."""
        path = "config" if subject is None else f"config/{_quoted(subject)}"
        if level is None:
            self._change("DELETE", path)
        else:
            self._change("PUT", path, {"compatibility": level})

    def misfits(
        self, subject: str, kind: str, text: str, references: Sequence[Mapping[str, Any]] = ()
    ) -> list[str]:
        """Why a schema cannot be the subject's next version, in the registry's words; empty where it can."""
        body = {"schemaType": kind, "schema": text, "references": list(references)}
        path = f"compatibility/{_path(subject)}/versions/latest?verbose=true"
        try:
            found = self._change("POST", path, body)
        except UnknownSchemaError:
            return []  # a first version fits
        return (
            [] if found["is_compatible"] else [*map(str, found.get("messages") or ()), "it is not compatible"]
        )

    def register(
        self, subject: str, kind: str, text: str, references: Sequence[Mapping[str, Any]] = ()
    ) -> int:
        """The schema's id."""
        body = {"schemaType": kind, "schema": text, "references": list(references)}
        return int(self._change("POST", f"{_path(subject)}/versions", body)["id"])

    def delete(self, subject: str, number: int | None = None) -> None:
        """A version, or all; the registry keeps ids that are in use by records readable."""
        self._change("DELETE", _path(subject) + ("" if number is None else f"/versions/{number}"))

    def _change(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        if self.is_folder:
            raise RegistryError(f"{self.registry.place} is a folder: change its files")
        return self.registry.ask(method, path, body)


def _path(subject: str) -> str:
    return f"subjects/{_quoted(subject)}"


def _quoted(name: str) -> str:
    return quote(name, safe="")
