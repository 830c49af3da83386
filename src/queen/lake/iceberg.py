"""
An Iceberg table, with its catalog in Queen's database or elsewhere.

The batch is a property of the table, set in the commit that adds the files, so expiring snapshots
can't lose it. Each commit creates a snapshot, even without files, and names its parent, so of two
concurrent commits one fails. `Commit` turns off pyiceberg's retry, because it would append without
reading the batch number again. Other writers of the table may retry.
"""

# pyright: basic
import contextlib
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec
import pyarrow as pa
import requests.exceptions
import sqlalchemy.exc
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchNamespaceError,
    NoSuchTableError,
    ServerError,
    ServiceUnavailableError,
    TableAlreadyExistsError,
    TooManyRequestsError,
    ValidationException,
)
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.table import Table

from queen import errors
from queen.lake.catalogs import NAMESPACE, CatalogOptions
from queen.lake.database_catalog import DatabaseCatalog
from queen.lake.iceberg_commits import FORMER_PROPERTIES, PROPERTIES, Commit
from queen.lake.iceberg_files import (
    BY_DAY,
    TABLE_SCHEMA,
    IcebergReader,
    data_file,
    file_schema,
    rewrite_schema,
    scan_tasks,
)
from queen.lake.lake import (
    MAX_SNAPSHOTS,
    CommitConflict,
    CommitUnknown,
    Lake,
    Snapshot,
    backoff,
)
from queen.lake.records import Batch, DataFile
from queen.lake.storage import NO_OPTIONS, Storage, StorageOptions, is_below, local

_BATCH: Final = "queen.batch"
_READERS: Final = 16
_UNCLEAR: Final = (
    CommitStateUnknownException,
    ServerError,
    ServiceUnavailableError,
    TooManyRequestsError,
    OSError,
    requests.exceptions.RequestException,
    sqlalchemy.exc.InterfaceError,
    sqlalchemy.exc.OperationalError,
)
"""Errors after which the commit may have been applied, or a repetition may succeed."""


class IcebergLake(Lake):
    """The table ``queen.<name of the archive>``, or in the namespace of another catalog."""

    def __init__(
        self,
        dsn: str,
        name: str,
        location: str,
        *,
        make: bool = False,
        options: StorageOptions = NO_OPTIONS,
        catalog: CatalogOptions | None = None,
        max_snapshots: int = MAX_SNAPSHOTS,
    ) -> None:
        super().__init__(name, Storage(location, options))
        self._max_snapshots = max_snapshots
        access = {} if self.storage.is_local else options.for_iceberg()
        self._namespace = NAMESPACE if catalog is None else catalog.namespace
        self._catalog = DatabaseCatalog(dsn, access) if catalog is None else catalog.load(access)
        self._identifier = (*self._namespace.split("."), name)
        try:
            self._open(make=make)
        except BaseException:
            self.close()
            raise

    def _open(self, *, make: bool) -> None:
        failure: Exception | None = None
        for wait_seconds in backoff():
            try:
                with _translated():
                    location = self._table(make=make).location()
                break
            # An IntegrityError: another process just created it.
            except (CommitUnknown, sqlalchemy.exc.IntegrityError) as error:
                failure = error
                time.sleep(wait_seconds)
        else:
            raise errors.DatabaseUnavailable(
                f"the catalog of the lake is unreachable: {failure}"
            ) from failure
        if not self._is_at(location):
            raise errors.InvalidOption(
                f"the Iceberg table {self._named} already exists at {location}"
            )

    def _is_at(self, location: str) -> bool:
        return local(location).rstrip("/") == self.storage.location

    @property
    def _named(self) -> str:
        return f"{self._namespace}.{self.name}"

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
        with _translated():
            return [data_file(table, task) for task in scan_tasks(table)]

    def snapshot(self, table: Table | None = None) -> Snapshot:
        state: Table = self.load() if table is None else table
        tasks = scan_tasks(state)
        reader = IcebergReader(state, tasks, self.storage.options)
        return Snapshot([data_file(state, task) for task in tasks], reader, rewrite_schema(state))

    def schema_in(self, table: Table) -> pa.Schema:
        return file_schema(table)

    def add_columns(self, table: Table, wanted: pa.Schema) -> None:
        with _translated():
            with table.update_schema() as update:
                update.union_by_name(wanted)
            self.storage.make_durable([table.metadata_location])

    def append(self, table: Table, batch: Batch, files: Sequence[DataFile]) -> None:
        known_by = {_BATCH: msgspec.json.encode(batch).decode()}
        # Tables of earlier releases get the current settings too.
        missing = {name: PROPERTIES[name] for name in PROPERTIES if name not in table.properties}
        with _translated():
            commit = Commit(table)
            commit.expire_beyond(self._max_snapshots)
            commit.set_properties({**missing, **known_by})
            if former := [name for name in FORMER_PROPERTIES if name in table.properties]:
                commit.remove_properties(*former)
            commit.append_files(_iceberg_files(table, files), known_by)
            self._settle(commit)

    def rewrite_files(self, table: Table, old: Sequence[DataFile], new: Sequence[DataFile]) -> None:
        paths = {file.path for file in old}
        with _translated():
            commit = Commit(table)
            present = [task.file for task in scan_tasks(table) if task.file.file_path in paths]
            commit.replace_files(present, _iceberg_files(table, new))
            self._settle(commit)

    def expire(self, seconds: float) -> int:
        table = self.load()
        before = datetime.now(UTC) - timedelta(seconds=seconds)
        count = len(table.snapshots())
        with _translated():
            table.maintenance.expire_snapshots().older_than(before).commit()
        return count - len(self.load().snapshots())

    def remove_orphans(self, seconds: float, snapshot_seconds: float = 0) -> int:
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
            is_ours = all(table.properties.get(name) == PROPERTIES[name] for name in PROPERTIES)
            is_empty = table.current_snapshot() is None
            if not (make and is_empty and is_ours) or self._is_at(table.location()):
                return table
            # An archive that has moved before its first batch. The catalog has only an empty table.
            self._catalog.drop_table(self._identifier)
        except (NoSuchTableError, NoSuchNamespaceError) as error:
            if not make:
                raise errors.NotFound(f"table {self._named} does not exist") from error
        has_files = next(self.storage.entries(self.folder), None) is not None
        # If another process has just created the table, it may have written files.
        if has_files and not self._catalog.table_exists(self._identifier):
            # They would be deleted later, as leftovers of failed attempts.
            raise errors.InvalidOption(f"{self.folder} contains files of something else")
        self._catalog.create_namespace_if_not_exists(self._identifier[:-1])
        try:
            return self._catalog.create_table(
                self._identifier, TABLE_SCHEMA, self.storage.location, BY_DAY, properties=PROPERTIES
            )
        except TableAlreadyExistsError:
            return self._catalog.load_table(self._identifier)

    def _settle(self, commit: Commit) -> None:
        """Commit and make it durable, because the ledger relies on it after a power failure."""
        table = commit.commit_transaction()
        snapshot = table.current_snapshot()
        assert snapshot is not None
        # Manifests of earlier snapshots are durable already.
        self.storage.make_durable(
            [table.metadata_location, snapshot.manifest_list, *commit.written]
        )
        with contextlib.suppress(Exception):  # The compaction removes what stays.
            # A client of the catalog may have written other paths into the metadata.
            metadata = f"{self.storage.location}/metadata"
            self.storage.delete(path for path in commit.removable if is_below(path, metadata))


@contextmanager
def _translated() -> Iterator[None]:
    """Translate errors of Iceberg and its catalog to `CommitConflict` and `CommitUnknown`."""
    try:
        yield
    except (CommitFailedException, ValidationException) as error:
        raise CommitConflict(str(error)) from error
    except (FileNotFoundError, PermissionError):
        raise
    except _UNCLEAR as error:
        raise CommitUnknown(str(error)) from error


def _iceberg_files(table: Table, files: Sequence[DataFile]) -> list[IcebergFile]:
    """Read the footers of files, concurrently because an object store responds slowly."""

    def describe(file: DataFile) -> IcebergFile:
        return parquet_file_to_data_file(table.io, table.metadata, file.path)

    if len(files) < 2:
        return [describe(file) for file in files]
    with ThreadPoolExecutor(min(len(files), _READERS)) as pool:
        return list(pool.map(describe, files))


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
    statistics = (*table.metadata.statistics, *table.metadata.partition_statistics)
    known.update(file.statistics_path for file in statistics)
    return {local(path) for path in known | seen}
