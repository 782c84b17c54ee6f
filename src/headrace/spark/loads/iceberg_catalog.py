"""Where Iceberg tables are found.

A table in a local folder has its catalogue with it: a small SQLite file, `catalog.db`, with the one table
`headrace.data`. Any other is in a catalogue that several engines share, and is written

    catalog://lake/sales.orders         the table `orders` of the namespace `sales` in the catalogue `lake`

The session says what `lake` is, as Iceberg's own jar is told it: `spark.sql.catalog.lake.type` (rest, sql,
hive, glue), `….uri`, `….warehouse`, `….credential`, and whatever pyiceberg's catalogues take. What pyiceberg
reads for itself, `.pyiceberg.yaml` and `PYICEBERG_CATALOG__LAKE__URI`, holds too. How files are reached comes
from the session's settings of S3, unless the catalogue says it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from headrace.spark.loads.errors import StoreError
from headrace.spark.loads.stores import CATALOGUES, S3_SCHEMES, Settings, iceberg_properties

IDENTIFIER: Final = "headrace.data"
SCHEME: Final = "catalog"
_TYPES: Final = ("rest", "sql", "hive", "glue", "dynamodb", "bigquery", "in-memory")
_FORM: Final = f"{SCHEME}://NAME/NAMESPACE.TABLE"


class CatalogTable(NamedTuple):
    """A table by its name in a catalogue; it need not exist yet."""

    catalog: Any
    identifier: str

    def load(self) -> Any:
        """None where there is none."""
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        try:
            return self.catalog.load_table(self.identifier)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None

    def location(self) -> str:
        """Where the table is, or where its catalogue would have it."""
        from pyiceberg.schema import Schema

        table = self.load()
        if table is not None:
            return str(table.location()).rstrip("/")
        self._make_namespace()
        draft = self.catalog.create_table_transaction(self.identifier, Schema())  # and never committed
        return str(draft.table_metadata.location).rstrip("/")

    def create(self, schema: Any, place: str, partition_by: list[str]) -> Any:
        """A new table there; the one of somebody who was faster."""
        from pyiceberg.exceptions import TableAlreadyExistsError

        self._make_namespace()
        try:
            created = self.catalog.create_table_transaction(self.identifier, schema, place)
            with created as creation, creation.update_spec() as update:
                for name in partition_by:
                    update.add_identity(name)
        except TableAlreadyExistsError:
            pass
        return self.catalog.load_table(self.identifier)

    def _make_namespace(self) -> None:
        self.catalog.create_namespace_if_not_exists(self.identifier.rpartition(".")[0])


def is_in_catalog(place: str) -> bool:
    return place.startswith(f"{SCHEME}://")


def named_table(place: str, settings: Settings) -> CatalogTable:
    """The table that `catalog://NAME/NAMESPACE.TABLE` names. StoreError where it cannot be."""
    parts = urlsplit(place)
    name, identifier = parts.netloc, parts.path.strip("/")
    if not name or "." not in identifier.strip(".") or "/" in identifier:
        raise StoreError(f"a table of a catalogue is written {_FORM}, not {place}")
    prefix = f"{CATALOGUES}{name}."
    own = {key.removeprefix(prefix): text for key, text in settings.items() if key.startswith(prefix)}
    kind = own.get("type", "").lower()
    if kind and kind not in _TYPES:
        raise StoreError(f"{prefix}type: there are catalogues of type {', '.join(_TYPES)}, not {kind}")
    warehouse = urlsplit(own.get("warehouse", ""))
    bucket = warehouse.netloc if warehouse.scheme in S3_SCHEMES else ""
    from pyiceberg.catalog import load_catalog

    with _told(name, own):
        return CatalogTable(load_catalog(name, **{**iceberg_properties(bucket, settings), **own}), identifier)


@contextmanager
def _told(name: str, own: Settings) -> Iterator[None]:
    """What goes wrong in one sentence, without what may be secret."""
    from pyiceberg.exceptions import NotInstalledError

    try:
        yield
    except NotInstalledError as error:
        raise StoreError(f"the catalogue {name} needs a library: {error}") from error
    except Exception as error:  # each library that a catalogue is made of has its own
        hint = ""
        if not own:
            hint = f". Say what it is: {CATALOGUES}{name}.type, .uri, .warehouse (docs/spark-clusters.md)"
        raise StoreError(f"the catalogue {name} cannot be opened: {_masked(str(error), own)}{hint}") from None


def _masked(text: str, own: Settings) -> str:
    for name, value in own.items():
        if value and name not in ("type", "warehouse"):
            text = text.replace(value, f"<{name}>")
    return text


def local_table(place: str) -> CatalogTable:
    """The table of a local folder that is there."""
    return CatalogTable(_catalog_in(place), IDENTIFIER)


def _catalog_in(place: str, **more: str) -> Any:
    from pyiceberg.catalog.sql import SqlCatalog

    return SqlCatalog("headrace", uri=f"sqlite:///{place}/catalog.db", warehouse=f"file://{place}", **more)


def table_in(place: str, settings: Settings) -> Any:
    """The table of a local folder or of a catalogue, for whoever does not make one; None where there is none.

    Who only reads must not make the catalogue's own tables: a load that makes them at the same time fails.
    """
    from sqlalchemy.exc import OperationalError

    if is_in_catalog(place):
        return named_table(place, settings).load()
    try:
        return CatalogTable(_catalog_in(place, init_catalog_tables="false"), IDENTIFIER).load()
    except OperationalError as error:
        if "no such table" in str(error):
            return None
        raise
