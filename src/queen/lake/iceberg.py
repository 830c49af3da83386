"""
An Iceberg table, with its catalog in Queen's database.

The batch is a property of the table, set in the commit that adds the files, so expiring snapshots
can't lose it. Each commit creates a snapshot, even without files, and names its parent, so of two
concurrent commits one fails. pyiceberg's retry is off, because it would append without reading the
batch number again.
"""

# pyright: basic
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import msgspec
import psycopg.conninfo
import sqlalchemy.exc
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchTableError,
    TableAlreadyExistsError,
    ValidationException,
)
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import DayTransform
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

from queen import errors
from queen.arrow.columns import BY_NAME, COLUMNS
from queen.arrow.database import DURABLE
from queen.lake.lake import Batch, CommitConflict, CommitUnknown, DataFile, Lake, backoff
from queen.lake.storage import Storage, local

NAMESPACE: Final = "queen"
_BATCH: Final = "queen.batch"
_EPOCH: Final = date(1970, 1, 1)
_TYPES: Final = {"offset": LongType(), "createdAt": TimestamptzType()}
_SCHEMA: Final = Schema(
    *(
        NestedField(
            number, name, _TYPES.get(name, StringType()), required=not BY_NAME[name].is_optional
        )
        for number, name in enumerate(COLUMNS, 1)
    )
)
_BY_DAY: Final = PartitionSpec(
    PartitionField(COLUMNS.index("createdAt") + 1, 1000, DayTransform(), "day")
)
_PROPERTIES: Final = {
    "commit.retry.num-retries": "0",
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "write.metadata.metrics.column.payload": "none",
    "write.metadata.metrics.column.headers": "none",
}


class IcebergLake(Lake):
    """The table ``queen.<name of the archive>``."""

    def __init__(self, dsn: str, name: str, location: str, *, make: bool = False) -> None:
        super().__init__(name, Storage(location))
        self._catalog = SqlCatalog(
            NAMESPACE, uri=_url(dsn), init_catalog_tables="false", pool_pre_ping="true"
        )
        self._identifier = (NAMESPACE, name)
        try:
            self._open(make=make)
        except BaseException:
            self.close()
            raise

    def _open(self, *, make: bool) -> None:
        for wait_seconds in backoff():
            try:
                with _translated():
                    location = self._table(make=make).location()
                break
            except (
                CommitUnknown,
                sqlalchemy.exc.IntegrityError,
            ):  # Another process just created it.
                time.sleep(wait_seconds)
        else:
            raise errors.DatabaseUnavailable("the catalog of the lake is unreachable")
        if not self._is_at(location):
            raise errors.InvalidOption(
                f"the Iceberg table {NAMESPACE}.{self.name} already exists at {location}"
            )

    def _is_at(self, location: str) -> bool:
        return local(location).rstrip("/") == self.storage.location

    def close(self) -> None:
        self._catalog.close()

    @property
    def folder(self) -> str:
        return f"{self.storage.location}/data"

    def load_once(self) -> Table:
        with _translated():
            return self._catalog.load_table(self._identifier)

    def last_in(self, table: Table) -> Batch | None:
        text = table.properties.get(_BATCH)
        return msgspec.json.decode(text, type=Batch) if text else None

    def files_in(self, table: Table) -> list[DataFile]:
        return [_data_file(file) for file in _files(table)]

    def append(self, table: Table, batch: Batch, files: Sequence[DataFile]) -> None:
        known_by = {_BATCH: msgspec.json.encode(batch).decode()}
        with _translated():
            transaction = table.transaction()
            transaction.set_properties(known_by)
            with transaction.update_snapshot(known_by).merge_append() as snapshot:
                for file in files:
                    snapshot.append_data_file(_iceberg_file(table, file))
            self._settle(transaction.commit_transaction())

    def rewrite_files(self, table: Table, old: Sequence[DataFile], new: Sequence[DataFile]) -> None:
        if tuple(table.schema().column_names) != COLUMNS:
            raise errors.InvalidOption(
                f"table {NAMESPACE}.{self.name} has columns that Queen did not create"
            )
        paths = {file.path for file in old}
        with _translated():
            transaction = table.transaction()
            with transaction.update_snapshot().overwrite() as snapshot:
                for file in _files(table):
                    if file.file_path in paths:
                        snapshot.delete_data_file(file)
                for file in new:
                    snapshot.append_data_file(_iceberg_file(table, file))
            self._settle(transaction.commit_transaction())

    def expire(self, seconds: float) -> int:
        table = self.load()
        before = datetime.now(UTC) - timedelta(seconds=seconds)
        count = len(table.snapshots())
        with _translated():
            table.maintenance.expire_snapshots().older_than(before).commit()
        return count - len(self.load().snapshots())

    def remove_orphans(self, seconds: float) -> int:
        before = datetime.now(UTC).timestamp() - seconds
        # Listed first, so that files of a concurrent commit are known afterwards.
        old = [
            entry.path
            for folder in (self.folder, f"{self.storage.location}/metadata")
            for entry in self.storage.entries(folder)
            if entry.modified_at < before
        ]
        known = _known(self.load())
        return self.storage.delete(path for path in old if path not in known)

    def _table(self, *, make: bool) -> Table:
        try:
            table = self._catalog.load_table(self._identifier)
            if not make or table.current_snapshot() or self._is_at(table.location()):
                return table
            # An archive that has moved before its first batch. The catalog has only an empty table.
            self._catalog.drop_table(self._identifier)
        except NoSuchTableError as error:
            if not make:
                raise errors.NotFound(f"table {NAMESPACE}.{self.name} does not exist") from error
        has_files = next(self.storage.entries(self.folder), None) is not None
        # If another process has just created the table, it may have written files.
        if has_files and not self._catalog.table_exists(self._identifier):
            # They would be deleted later, as leftovers of failed attempts.
            raise errors.InvalidOption(f"{self.folder} contains files of something else")
        self._catalog.create_namespace_if_not_exists(NAMESPACE)
        try:
            return self._catalog.create_table(
                self._identifier, _SCHEMA, self.storage.location, _BY_DAY, properties=_PROPERTIES
            )
        except TableAlreadyExistsError:
            return self._catalog.load_table(self._identifier)

    def _settle(self, table: Table) -> None:
        """Make the commit durable, because the ledger relies on it after a power failure."""
        snapshot = table.current_snapshot()
        assert snapshot is not None
        manifests = [each.manifest_path for each in snapshot.manifests(table.io)]
        self.storage.make_durable([table.metadata_location, snapshot.manifest_list, *manifests])


@contextmanager
def _translated() -> Iterator[None]:
    """Translate errors of Iceberg and its catalog to `CommitConflict` and `CommitUnknown`."""
    try:
        yield
    except (CommitFailedException, ValidationException) as error:
        raise CommitConflict(str(error)) from error
    except (sqlalchemy.exc.OperationalError, sqlalchemy.exc.InterfaceError) as error:
        raise CommitUnknown(str(error)) from error


def _files(table: Table) -> list[IcebergFile]:
    """Return the files of the table, sorted by name, which is the order of the archive."""
    tasks = list(table.scan().plan_files())
    if any(task.delete_files for task in tasks):
        raise errors.InvalidOption(
            f"{'.'.join(table.name())} has delete files: rewrite its data files first"
        )
    return sorted((task.file for task in tasks), key=lambda file: file.file_path)


def _data_file(file: IcebergFile) -> DataFile:
    day: Any = file.partition[0]
    if not isinstance(day, date):
        day = _EPOCH + timedelta(days=day)
    return DataFile(file.file_path, day, file.record_count, file.file_size_in_bytes)


def _iceberg_file(table: Table, file: DataFile) -> IcebergFile:
    return parquet_file_to_data_file(table.io, table.metadata, file.path)


def _known(table: Table) -> set[str]:
    """Return every file that a snapshot of the table needs, and its metadata files."""
    known = {table.metadata_location, *(log.metadata_file for log in table.metadata.metadata_log)}
    seen: set[str] = set()
    for snapshot in table.snapshots():
        known.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path not in seen:
                seen.add(manifest.manifest_path)
                entries = manifest.fetch_manifest_entry(table.io)
                known.update(entry.data_file.file_path for entry in entries)
    known.update(file.statistics_path for file in table.metadata.statistics)
    return {local(path) for path in known | seen}


def _url(dsn: str) -> str:
    """Convert a libpq DSN to SQLAlchemy's. The catalog's tables are in the schema ``queen``."""
    options = psycopg.conninfo.conninfo_to_dict(dsn)
    path = f"{options.pop('options', '')} {DURABLE} -c search_path=queen".strip()
    query = {name: str(value) for name, value in options.items() if value is not None}
    made = sqlalchemy.URL.create("postgresql+psycopg", query={**query, "options": path})
    return made.render_as_string(hide_password=False)
