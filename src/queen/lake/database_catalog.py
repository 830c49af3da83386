"""The catalog of Iceberg tables in Queen's own database."""

# pyright: basic
from collections.abc import Mapping
from typing import Any, Self

import psycopg.conninfo
import sqlalchemy
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot, SnapshotLogEntry
from pyiceberg.table.update import TableRequirement, TableUpdate

from queen.arrow.database import DURABLE
from queen.lake.catalogs import NAMESPACE


class DatabaseCatalog(SqlCatalog):
    """
    pyiceberg's catalog, whose commits don't read and copy all snapshots of a table again.

    Files with metadata never change, so the last one that was read or written is kept.
    """

    def __init__(self, dsn: str, storage: Mapping[str, str]) -> None:
        self._storage = dict(storage)
        super().__init__(
            NAMESPACE, uri=_url(dsn), init_catalog_tables="false", pool_pre_ping="true", **storage
        )
        self._last: tuple[str, TableMetadata] | None = None

    def _convert_orm_to_iceberg(self, orm_table: Any) -> Table:  # noqa: ANN401 - of SQLAlchemy
        location = orm_table.metadata_location
        last = self._last
        if last is None or last[0] != location:
            table = super()._convert_orm_to_iceberg(orm_table)
            table.metadata = self._keep(table.metadata_location, table.metadata)
            return table
        identifier = (*self.identifier_to_tuple(orm_table.table_namespace), orm_table.table_name)
        io = self._load_file_io(last[1].properties, location)
        return Table(identifier, last[1], location, io, self)

    def _load_file_io(
        self, properties: Mapping[str, str] | None = None, location: str | None = None
    ) -> FileIO:
        # Not with the properties of the table, which a client may have set: they can name a Python
        # class to import, or another host for the credentials.
        return load_file_io(self._storage, location)

    def commit_table(
        self,
        table: Table,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> CommitTableResponse:
        answer = super().commit_table(table, requirements, updates)
        kept = self._keep(answer.metadata_location, answer.metadata)
        return answer.model_copy(update={"metadata": kept})

    def _keep(self, location: str, metadata: TableMetadata) -> TableMetadata:
        snapshots = [_SharedSnapshot.of(each) for each in metadata.snapshots]
        log = [_SharedEntry.of(each) for each in metadata.snapshot_log]
        kept = metadata.model_copy(update={"snapshots": snapshots, "snapshot_log": log})
        self._last = (location, kept)
        return kept


class _Shared:
    """A part of the metadata that copies share, because it never changes."""

    @classmethod
    def of(cls, part: Any) -> Any:  # noqa: ANN401 - a pydantic model
        if isinstance(part, cls):
            return part
        model: Any = cls
        values = {name: getattr(part, name) for name in model.model_fields}
        return model.model_construct(_fields_set=part.model_fields_set, **values)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return self


class _SharedSnapshot(_Shared, Snapshot):
    pass


class _SharedEntry(_Shared, SnapshotLogEntry):
    pass


def _url(dsn: str) -> str:
    """Convert a libpq DSN to SQLAlchemy's. The catalog's tables are in the schema ``queen``."""
    options = psycopg.conninfo.conninfo_to_dict(dsn)
    path = f"{options.pop('options', '')} {DURABLE} -c search_path=queen".strip()
    query = {name: str(value) for name, value in options.items() if value is not None}
    made = sqlalchemy.URL.create("postgresql+psycopg", query={**query, "options": path})
    return made.render_as_string(hide_password=False)
