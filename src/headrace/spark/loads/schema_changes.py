"""What is different between a table's schema and a batch's, and whether the table can take it.

Pure: Arrow schemas in, changes and the schema to write out. Columns are compared by name without regard to
case, as Spark has it, and structs field by field, at any depth. With `evolve` a table gets what it lacks:

- a column that is new is added, and null in the rows that were there;
- a column that a batch lacks is null in its rows, unless the table says NOT NULL;
- a type that fits into the table's (int into bigint) is cast; one that is wider widens the column where the
  format can do that without writing its files anew, and is refused elsewhere;
- order and the case of names are the table's; a NOT NULL that a batch cannot promise is dropped.

All else is refused, before anything is written. With `strict` every difference is refused. That a batch
promises more than the table wants (NOT NULL) is no difference: its rows fit, and the next batch's need not.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import pyarrow as pa

_TOLD_MAX: Final = 10  # changes in one error
_BITS: Final = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}
# The digits that any number of so many bits needs.
_DIGITS: Final = {8: 3, 16: 5, 32: 10, 64: 19}
_DOUBLE_BITS_MAX: Final = 32  # integers that a double holds exactly
_NAMES: Final = {
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    pa.null(): "void",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
}


class ChangeKind(StrEnum):
    """The ways in which a batch can differ."""

    ADDED = "added"
    MISSING = "missing"
    ORDER = "order"
    CASE = "case"
    NULLABLE = "nullable"
    CAST = "cast"
    WIDENED = "widened"
    TYPE = "type"
    AMBIGUOUS = "ambiguous"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """One difference; `is_refused` where no mode takes it."""

    kind: ChangeKind
    column: str
    text: str
    is_refused: bool = False


@dataclass(frozen=True, slots=True)
class FormatRules:
    """What a format can do to the columns of a table without writing its files anew."""

    name: str
    widens: Callable[[Any, Any], bool] = lambda _before, _after: False
    has_small_ints: bool = True
    """Whether there are tinyint and smallint."""
    relaxes_nested: bool = True
    """Whether NOT NULL can be dropped inside of a struct."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The changes, and the table's schema with them, which is also what the batch's files must have."""

    changes: tuple[SchemaChange, ...]
    schema: Any

    def refused(self, mode: str) -> tuple[SchemaChange, ...]:
        """What the table does not take in this mode."""
        return tuple(each for each in self.changes if mode == "strict" or each.is_refused)


def compare(table: Any, batch: Any, rules: FormatRules) -> Comparison:
    """A batch's schema against the table's; both as `plain_schema` makes them."""
    found = _Comparing(rules)
    merged = found.fields(list(table), list(batch), "")
    return Comparison(tuple(found.changes), pa.schema(merged))


def new_table(batch: Any, rules: FormatRules) -> Comparison:
    """A table that is to be made for a batch: any column may be null, for the next batch may have one."""
    found = _Comparing(rules)
    made = [found.new(each, each.name) for each in found.distinct(list(batch), "")]
    return Comparison(tuple(found.changes), pa.schema(made))


def told(changes: Sequence[SchemaChange]) -> str:
    """Changes as one line for a person."""
    texts = [each.text for each in changes[:_TOLD_MAX]]
    if len(changes) > _TOLD_MAX:
        texts.append(f"and {len(changes) - _TOLD_MAX} more")
    return "; ".join(texts)


@dataclass(slots=True)
class _Comparing:
    rules: FormatRules
    changes: list[SchemaChange] = field(default_factory=list)

    def _say(self, kind: ChangeKind, column: str, text: str, *, is_refused: bool = False) -> None:
        self.changes.append(SchemaChange(kind, column, text, is_refused))

    def fields(self, table: list[Any], batch: list[Any], path: str) -> list[Any]:
        """The fields of a struct, or of a row: the table's in its order, then those that are new."""
        given = {each.name.lower(): each for each in self.distinct(batch, path)}
        known = {each.name.lower() for each in table}
        merged = []
        for each in table:
            column = path + each.name
            own = given.get(each.name.lower())
            merged.append(self._missing(each, column) if own is None else self._field(each, own, column))
        for name, each in given.items():
            if name not in known:
                column = path + each.name
                added = self.new(each, column)
                merged.append(added)
                self._say(ChangeKind.ADDED, column, f"column {column} is new ({type_name(added.type)})")
        self._order([each.name for each in table], [each.name for each in batch], path)
        return merged

    def distinct(self, batch: list[Any], path: str) -> list[Any]:
        """Fields of which no two have the same name."""
        found: dict[str, Any] = {}
        for each in batch:
            first = found.setdefault(each.name.lower(), each)
            if first is not each:
                text = (
                    f"there are two columns {path}{first.name} and {path}{each.name}: give one another name"
                )
                self._say(ChangeKind.AMBIGUOUS, path + each.name, text, is_refused=True)
        return list(found.values())

    def _missing(self, table: Any, column: str) -> Any:
        text = f"column {column} ({type_name(table.type)}) is missing"
        if not table.nullable:
            text += ", and the table says NOT NULL"
        self._say(ChangeKind.MISSING, column, text, is_refused=not table.nullable)
        return table

    def _order(self, table: list[str], batch: list[str], path: str) -> None:
        given = {name.lower() for name in batch}
        known = {name.lower() for name in table}
        there = [name for name in table if name.lower() in given]
        here = [name for name in batch if name.lower() in known]
        if [name.lower() for name in there] != list(dict.fromkeys(name.lower() for name in here)):
            inside = f" in {path[:-1]}" if path else ""
            text = f"columns come in another order{inside}: {', '.join(here)}, not {', '.join(there)}"
            self._say(ChangeKind.ORDER, path[:-1], text)

    def _field(self, table: Any, batch: Any, column: str) -> Any:
        if table.name != batch.name:
            self._say(ChangeKind.CASE, column, f"column {column} is written {batch.name}")
        merged = self._type(table.type, batch.type, column)
        nullable = table.nullable or batch.nullable
        if nullable and not table.nullable:
            is_refused = "." in column and not self.rules.relaxes_nested
            self._say(
                ChangeKind.NULLABLE,
                column,
                f"column {column} may be null, and the table says NOT NULL",
                is_refused=is_refused,
            )
        return pa.field(table.name, merged, nullable)

    def _type(self, table: Any, batch: Any, column: str) -> Any:
        if pa.types.is_struct(table) and pa.types.is_struct(batch):
            return pa.struct(self.fields(_children(table), _children(batch), f"{column}."))
        if pa.types.is_list(table) and pa.types.is_list(batch):
            return pa.list_(self._inner(table.value_field, batch.value_field, f"{column}.element"))
        if pa.types.is_map(table) and pa.types.is_map(batch):
            # Keys that differ in kind are other keys: no format widens them.
            key = self._scalar(table.key_type, batch.key_type, f"{column}.key", can_widen=False)
            return pa.map_(key, self._inner(table.item_field, batch.item_field, f"{column}.value"))
        return self._scalar(table, batch, column)

    def _inner(self, table: Any, batch: Any, column: str) -> Any:
        """An element of a list, or a value of a map."""
        return self._field(table, pa.field(table.name, batch.type, batch.nullable), column)

    def _scalar(self, table: Any, batch: Any, column: str, *, can_widen: bool = True) -> Any:
        stored = self._stored(batch)
        if stored == table:
            return table
        said = f"column {column} is {type_name(batch)}, in the table {type_name(table)}"
        if pa.types.is_null(batch) or fits(stored, table):
            self._say(ChangeKind.CAST, column, said)
            return table
        if can_widen and self.rules.widens(table, stored):
            self._say(ChangeKind.WIDENED, column, said)
            return stored
        if can_widen and fits(table, stored):
            said += f", which {self.rules.name} cannot widen"
        self._say(ChangeKind.TYPE, column, said, is_refused=True)
        return table

    def new(self, given: Any, column: str) -> Any:
        """A column that the table gets."""
        return pa.field(given.name, self._new_type(given.type, column), nullable=True)

    def _new_type(self, given: Any, column: str) -> Any:
        if pa.types.is_struct(given):
            fields = self.distinct(_children(given), f"{column}.")
            return pa.struct([self.new(each, f"{column}.{each.name}") for each in fields])
        if pa.types.is_list(given):
            return pa.list_(self.new(given.value_field, f"{column}.element"))
        if pa.types.is_map(given):
            item = self.new(given.item_field, f"{column}.value")
            return pa.map_(self._new_type(given.key_type, f"{column}.key"), item)
        if pa.types.is_null(given):
            text = f"column {column} has no type, only NULL: cast it, as CAST({column} AS string)"
            self._say(ChangeKind.UNSUPPORTED, column, text, is_refused=True)
        elif not _is_known(given):
            text = f"column {column} is {type_name(given)}, which tables do not have: cast it"
            self._say(ChangeKind.UNSUPPORTED, column, text, is_refused=True)
        return self._stored(given)

    def _stored(self, given: Any) -> Any:
        """What the format makes of a type."""
        return pa.int32() if not self.rules.has_small_ints and _BITS.get(given, 32) < 32 else given


def fits(narrow: Any, wide: Any) -> bool:
    """Whether every value of a type is one of the other, without loss."""
    if narrow == wide:
        return True
    if narrow in _BITS:
        bits = _BITS[narrow]
        if wide in _BITS:
            return bits < _BITS[wide]
        if pa.types.is_float64(wide):
            return bits <= _DOUBLE_BITS_MAX
        return bool(pa.types.is_decimal128(wide)) and wide.precision - wide.scale >= _DIGITS[bits]
    if pa.types.is_float32(narrow):
        return bool(pa.types.is_float64(wide))
    if pa.types.is_decimal128(narrow) and pa.types.is_decimal128(wide):
        return bool(
            wide.scale >= narrow.scale and wide.precision - wide.scale >= narrow.precision - narrow.scale
        )
    return False


def _is_known(given: Any) -> bool:
    is_named = given in _NAMES or pa.types.is_decimal128(given)
    return bool(is_named or pa.types.is_string(given) or pa.types.is_binary(given))


def _children(struct: Any) -> list[Any]:
    return [struct.field(at) for at in range(struct.num_fields)]


# Types as all formats mean them


def plain_schema(schema: Any) -> Any:
    """Without metadata and without what only says how Arrow lays out values."""
    return pa.schema([_plain_field(each) for each in schema])


def _plain_field(given: Any, name: str | None = None) -> Any:
    return pa.field(name or given.name, _plain_type(given.type), given.nullable)


def _plain_type(given: Any) -> Any:
    if pa.types.is_struct(given):
        return pa.struct([_plain_field(each) for each in _children(given)])
    if pa.types.is_list(given) or pa.types.is_large_list(given):
        return pa.list_(_plain_field(given.value_field, "element"))
    if pa.types.is_map(given):
        return pa.map_(_plain_type(given.key_type), _plain_field(given.item_field, "value"))
    if pa.types.is_dictionary(given):
        return _plain_type(given.value_type)
    if pa.types.is_large_string(given) or pa.types.is_string_view(given):
        return pa.string()
    if pa.types.is_large_binary(given) or pa.types.is_binary_view(given):
        return pa.binary()
    if pa.types.is_timestamp(given):
        return pa.timestamp("us", None if given.tz is None else "UTC")
    return given


def type_name(given: Any) -> str:
    """A type in SQL's words."""
    if pa.types.is_struct(given):
        return f"struct<{', '.join(f'{each.name}: {type_name(each.type)}' for each in _children(given))}>"
    if pa.types.is_list(given):
        return f"array<{type_name(given.value_type)}>"
    if pa.types.is_map(given):
        return f"map<{type_name(given.key_type)}, {type_name(given.item_type)}>"
    if pa.types.is_decimal128(given):
        return f"decimal({given.precision},{given.scale})"
    return _NAMES.get(given) or str(given)


def not_null_dropped(before: Any, after: Any) -> Iterator[str]:
    """Columns at the top that may be null now and could not before."""
    wanted = {each.name: each for each in after}
    for each in before:
        if not each.nullable and wanted[each.name].nullable:
            yield each.name
