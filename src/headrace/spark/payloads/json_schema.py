"""JSON Schema: which columns its properties are, and values with a schema's id in front.

JSON needs no schema to be read, so a value's id is passed over, and Spark's own parser reads the fields that
the schema names, whichever version it was written with. Strings with the format `date-time` or `date` are
times; an object without properties, but with a schema for all, is a map; what may be of several types besides
null is text, as it stands in the value. References within the schema are followed.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace.schemas.errors import PayloadError
from headrace.schemas.registry import RegisteredSchema
from headrace.schemas.wire_format import HEAD_BYTES, head_bytes
from headrace.spark.payloads.json import Json

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

_FORMATS: Final = {"date-time": "timestamp", "date": "date"}
_TYPES: Final = {"integer": "long", "number": "double", "boolean": "boolean"}
NO_HEAD: Final = "the value does not begin with a zero byte and a schema's id"


@dataclass(frozen=True, slots=True)
class RegisteredJson:
    """See above."""

    schema: RegisteredSchema

    def spark_schema(self) -> "StructType":
        """PayloadError where the schema is none or names no fields."""
        return json_columns(self.schema.text)

    def parse(self, value: "Column") -> "Column":
        from pyspark.sql import functions as F  # noqa: N812

        has_head = (F.length(value) > HEAD_BYTES) & (F.substring(value, 1, 1) == F.lit(b"\0"))
        found = Json(self.spark_schema()).parse(F.when(has_head, F.substring(value, HEAD_BYTES + 1, 1 << 30)))
        error = F.when(value.isNotNull() & ~has_head, F.lit(NO_HEAD)).otherwise(found["error"])
        return F.struct(found["data"].alias("data"), error.alias("error"))

    def format(self, fields: "Column") -> "Column":
        from pyspark.sql import functions as F  # noqa: N812

        return F.concat(F.lit(head_bytes(self.schema.id)), Json().format(fields))

    def check_columns(self, columns: "StructType") -> None:
        """PayloadError where the query's columns are not what the schema says an object has."""
        form = _loaded(self.schema.text)
        known = form.get("properties") or {}
        if form.get("additionalProperties") is False:
            more = [each for each in columns.names if each not in known]
            if more:
                raise PayloadError(f"the schema has no field {more[0]!r}; it has {', '.join(known)}")
        missing = [each for each in form.get("required") or () if each not in columns.names]
        if missing:
            raise PayloadError(f"the schema wants a field {missing[0]!r}, and the query has no such column")


def json_columns(text: str) -> "StructType":
    """The columns of an object's properties."""
    from pyspark.sql.types import StructType

    form = _loaded(text)
    found = _type(form, form, ())
    if not isinstance(found, StructType):
        raise PayloadError("the JSON Schema must be of an object with properties: they are the columns")
    return found


def _loaded(text: str) -> dict[str, Any]:
    try:
        form = json.loads(text)
    except ValueError as error:
        raise PayloadError(f"this is not a JSON Schema: {error}") from error
    if not isinstance(form, dict):
        raise PayloadError("this is not a JSON Schema: it is no object")
    return form


def _type(form: Any, root: Mapping[str, Any], seen: tuple[str, ...]) -> "DataType":
    from pyspark.sql import types

    if not isinstance(form, dict):  # true: anything
        return types.StringType()
    if "$ref" in form:
        return _referred(form["$ref"], root, seen)
    kinds = form.get("type")
    kinds = [each for each in ([kinds] if isinstance(kinds, str) else kinds or ()) if each != "null"]
    choices = [
        each
        for name in ("oneOf", "anyOf", "allOf")
        for each in form.get(name) or ()
        if not (isinstance(each, dict) and each.get("type") == "null")
    ]
    if not kinds and len(choices) == 1:
        return _type(choices[0], root, seen)
    if kinds == ["object"] or (not kinds and "properties" in form):
        return _object(form, root, seen)
    if kinds == ["array"]:
        return types.ArrayType(_type(form.get("items", True), root, seen))
    if set(kinds) == {"integer", "number"}:
        return types.DoubleType()
    if kinds == ["string"] and form.get("format") in _FORMATS:
        return types.TimestampType() if _FORMATS[form["format"]] == "timestamp" else types.DateType()
    if len(kinds) == 1 and kinds[0] in _TYPES:
        plain = {"long": types.LongType(), "double": types.DoubleType(), "boolean": types.BooleanType()}
        return plain[_TYPES[kinds[0]]]
    return types.StringType()


def _object(form: Mapping[str, Any], root: Mapping[str, Any], seen: tuple[str, ...]) -> "DataType":
    from pyspark.sql.types import MapType, StringType, StructField, StructType

    own = form.get("properties")
    if own:
        return StructType([StructField(name, _type(each, root, seen)) for name, each in own.items()])
    return MapType(StringType(), _type(form.get("additionalProperties", True), root, seen))


def _referred(place: str, root: Mapping[str, Any], seen: tuple[str, ...]) -> "DataType":
    if place in seen:
        raise PayloadError(f"the JSON Schema contains itself at {place}, which no column type can")
    found: Any = root
    try:
        if not place.startswith("#/"):
            raise KeyError(place)
        for step in place.removeprefix("#/").split("/"):
            found = found[step.replace("~1", "/").replace("~0", "~")]
    except (KeyError, TypeError):
        raise PayloadError(f"the JSON Schema refers to {place}, which is not in it") from None
    return _type(found, root, (*seen, place))
