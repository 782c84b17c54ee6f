"""A schema registry's subjects: versions and their texts, compatibility, registering and deleting.

A registry that is asked with the console's own credentials cannot know who looks. Where people log in to the
cluster, such a one is only read then, and of subjects those are shown that are named after topics that one
may see.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeVar

from headrace.console.http_server import RefusedCallError
from headrace.console.visit import Visit, text_of
from headrace.schemas.errors import RegistryError, UnknownSchemaError
from headrace.schemas.registry import KINDS
from headrace.schemas.subjects import LEVELS, Subjects, SubjectVersion

T = TypeVar("T")

_SUFFIXES: Final = ("-key", "-value")
_NONE: Final = (
    "No schema registry is known. Start the console with --schema-registry URL, or with a folder of schemas."
)
_LEND: Final = (
    "the registry is asked with the console's own credentials, and people log in here: nobody changes it so. "
    "Set schema.registry.basic.auth.credentials.source=SASL_INHERIT to ask it with each one's own"
)


async def subjects(visit: Visit) -> Any:
    """All that this person may see; `missing` says why there can be none."""
    if visit.connection.registry is None:
        return {"subjects": [], "missing": _NONE, "hidden": 0, "can_change": False, "level": None}
    own = _subjects(visit)
    names = await _ask(own.names)
    seen = await _seen(visit, names)
    return {
        "place": own.registry.place,
        "subjects": [{"name": each, "topic": _topic(each)} for each in seen],
        "hidden": len(names) - len(seen),
        "missing": "",
        "can_change": not own.is_folder and not _is_lent(visit),
        "level": await _ask(own.level),
    }


async def schema_of_id(visit: Visit) -> Any:
    """A schema by the id that values have, and the versions that it is, as far as the registry tells them."""
    own = _subjects(visit)
    schema_id = _number(visit, "id")
    found = await _ask(own.registry.by_id, schema_id)
    used: list[Any] = []
    if own.registry.folder is not None:
        used = [{"subject": name} for name, each in own.registry.folder if each.id == schema_id]
    else:
        try:
            used = await _ask(own.registry.ask, "GET", f"schemas/ids/{schema_id}/versions")
        except RefusedCallError:
            used = []  # older registries do not tell
    seen = set(await _seen(visit, [str(each["subject"]) for each in used]))
    return {
        "id": schema_id,
        "kind": found.kind,
        "text": found.text,
        "references": [{"name": name, "text": text} for name, text in found.references],
        "used": [each for each in used if each["subject"] in seen],
    }


async def subject(visit: Visit) -> Any:
    """Its versions by number, the newest one in full, and its compatibility level."""
    own, name = await _named(visit)
    versions = await _ask(own.versions, name)
    return {
        "subject": name,
        "topic": _topic(name),
        "versions": versions,
        "newest": _version_json(await _ask(own.version, name, versions[-1])) if versions else None,
        "level": await _ask(own.level, name),
        "default_level": await _ask(own.level),
        "levels": LEVELS,
        "can_change": not own.is_folder and not _is_lent(visit),
    }


async def version(visit: Visit) -> Any:
    own, name = await _named(visit)
    return _version_json(await _ask(own.version, name, _number(visit, "version")))


def _version_json(found: SubjectVersion) -> dict[str, Any]:
    return {**found._asdict(), "references": [dict(each) for each in found.references]}


async def check(visit: Visit) -> Any:
    """Whether a schema could be the next version: `misfits` are the registry's reasons against it."""
    own, name = await _named(visit)
    return {"misfits": await _ask(own.misfits, name, *_given(visit))}


async def register(visit: Visit) -> Any:
    """Make a schema a subject's next version."""
    own, name = await _changed(visit)
    made = await _ask(own.register, name, *_given(visit))
    visit.details["schema"] = made
    return {"id": made}


async def set_level(visit: Visit) -> Any:
    """Of a subject, or of all that have none of their own; null takes a subject's own away."""
    own, name = await _changed(visit)
    level = visit.request.json().get("level")
    if level is not None and level not in LEVELS:
        raise RefusedCallError(400, f"{level!r} is none of {', '.join(LEVELS)}")
    if level is None and not name:
        raise RefusedCallError(400, "the registry itself must have a level")
    visit.details["level"] = level
    await _ask(own.set_level, level, name or None)
    return {"level": level}


async def delete_subject(visit: Visit) -> Any:
    """All of its versions; its name must be given again."""
    own, name = await _changed(visit)
    _confirm(visit, name)
    await _ask(own.delete, name)
    return {"deleted": name}


async def delete_version(visit: Visit) -> Any:
    own, name = await _changed(visit)
    _confirm(visit, name)
    await _ask(own.delete, name, _number(visit, "version"))
    return {"deleted": name}


def _confirm(visit: Visit, name: str) -> None:
    if text_of(visit.request.json(), "confirm") != name:
        raise RefusedCallError(400, f"to delete it, confirm it by the subject's name, {name!r}")


def _given(visit: Visit) -> tuple[str, str, list[dict[str, Any]]]:
    body = visit.request.json()
    kind = text_of(body, "kind")
    if kind not in KINDS.values():
        raise RefusedCallError(400, f"{kind!r} is none of {', '.join(KINDS.values())}")
    references = body.get("references", [])
    if not isinstance(references, list) or not all(isinstance(each, dict) for each in references):
        raise RefusedCallError(400, "'references' must be a list of objects")
    return kind, text_of(body, "text"), references


# Who may


def _subjects(visit: Visit) -> Subjects:
    if visit.connection.registry is None:
        raise RefusedCallError(404, _NONE)
    return Subjects(visit.connection.registry)


def _is_lent(visit: Visit) -> bool:
    """Whether the registry takes everybody for the console."""
    spec = visit.connection.spec
    return visit.needs_login and not spec.extras.inherits


async def _seen(visit: Visit, names: list[str]) -> list[str]:
    if not _is_lent(visit):
        return names
    topics = (await visit.watch.picture()).topics
    return [each for each in names if _topic(each) in topics]


def _topic(name: str) -> str:
    """The topic that a subject is named after, by the usual strategy; empty where it is not."""
    for suffix in _SUFFIXES:
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return ""


async def _named(visit: Visit) -> tuple[Subjects, str]:
    own, name = _subjects(visit), visit.arguments["subject"]
    if not await _seen(visit, [name]):
        raise RefusedCallError(404, f"there is no subject {name!r} that you may see")
    return own, name


async def _changed(visit: Visit) -> tuple[Subjects, str]:
    if _is_lent(visit):
        raise RefusedCallError(403, _LEND)
    return _subjects(visit), visit.arguments.get("subject", "")


def _number(visit: Visit, name: str) -> int:
    text = visit.arguments[name]
    if not text.isdecimal() or len(text) > 10:
        raise RefusedCallError(400, f"{text!r} is no number")
    return int(text)


async def _ask(function: Callable[..., T], *arguments: Any) -> T:
    """In a thread, for the registry takes its time."""
    try:
        return await asyncio.to_thread(function, *arguments)
    except UnknownSchemaError as error:
        raise RefusedCallError(404, str(error)) from None
    except RegistryError as error:
        refused = 403 if error.status in (401, 403) else 409 if 400 <= error.status < 500 else 502
        raise RefusedCallError(refused, str(error)) from None
    except (ValueError, KeyError, TypeError) as error:
        raise RefusedCallError(502, f"the registry's answer is broken: {error}") from None
