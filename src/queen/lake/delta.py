"""
A Delta table, through the package deltalake.

A batch is an application transaction in Delta's log. Delta does not reject a batch that the log
already contains. So each commit is made for exactly the version in which the batch number was read,
without retries: of two concurrent commits, one fails. A retry by deltalake would detect two
conflicting batches, but not two compactions of the same files, which would duplicate rows. It would
also commit a later version than the one whose log file is made durable.
"""

# pyright: basic
import math
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from queen import errors
from queen.lake.day_files import SCHEMA
from queen.lake.lake import Batch, CommitConflict, CommitUnknown, DataFile, Lake
from queen.lake.storage import NO_OPTIONS, Storage, StorageOptions
from queen.lake.typed_columns import DATA, MISFIT, small_type

_DAY: Final = "day"
_SCHEMA: Final = pa.schema(
    [*(field.with_metadata({}) for field in SCHEMA), pa.field(_DAY, pa.date32(), nullable=False)]
)
_FIELDS: Final = Batch.__struct_fields__
_BOUNDED: Final = ("queue", "partition", "offset", "createdAt")
_LONGEST: Final = 32
_CUT: Final = timedelta(milliseconds=1)
_READERS: Final = 16


class DeltaLake(Lake):
    """The table at a location, in directories by day."""

    def __init__(
        self,
        name: str,
        location: str,
        *,
        make: bool = False,
        options: StorageOptions = NO_OPTIONS,
    ) -> None:
        super().__init__(name, Storage(location, options))
        if make:
            try:
                DeltaTable.create(
                    self.storage.location,
                    schema=_SCHEMA,
                    partition_by=[_DAY],
                    mode="ignore",
                    storage_options=self._options(),
                )
            except DeltaError as error:
                raise OSError(str(error)) from error
        elif not DeltaTable.is_deltatable(self.storage.location, self._options()):
            raise errors.NotFound(f"the Delta table {self.storage.location} does not exist")

    @property
    def folder(self) -> str:
        return self.storage.location

    def load_once(self) -> DeltaTable:
        try:
            return DeltaTable(self.storage.location, storage_options=self._options())
        except OSError as error:
            raise CommitUnknown(str(error)) from error

    def last_in(self, table: DeltaTable) -> Batch | None:
        values = [table.transaction_version(self._app(field)) for field in _FIELDS]
        return None if values[0] is None else Batch(*(value or 0 for value in values))

    def files_in(self, table: DeltaTable) -> list[DataFile]:
        actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
        files = [
            DataFile(
                f"{self.storage.location}/{action['path']}",
                action["partition.day"],
                action["num_records"],
                action["size_bytes"],
                first_at=action.get("min.createdAt"),
                last_at=_rounded_up(action.get("max.createdAt")),
            )
            for action in actions
        ]
        return sorted(files, key=lambda file: file.path)

    def schema_in(self, table: DeltaTable) -> pa.Schema:
        there = pa.schema(table.schema().to_arrow())
        typed = [there.field(name) for name in (DATA, MISFIT) if name in there.names]
        columns = [field.with_type(small_type(field.type)) for field in typed]
        return pa.schema([*SCHEMA, *columns]) if columns else SCHEMA

    def add_columns(self, table: DeltaTable, wanted: pa.Schema) -> None:
        version = table.version()
        try:
            table.alter.add_columns(Schema.from_arrow(wanted).fields)
        except CommitFailedError as error:
            raise CommitConflict(str(error)) from error
        except OSError as error:
            raise CommitUnknown(str(error)) from error
        self._make_durable(version + 1)

    def append(self, table: DeltaTable, batch: Batch, files: Sequence[DataFile]) -> None:
        transactions = [Transaction(self._app(field), getattr(batch, field)) for field in _FIELDS]
        self._commit(table, self._added(files, is_new=True), transactions)

    def rewrite_files(
        self, table: DeltaTable, old: Sequence[DataFile], new: Sequence[DataFile]
    ) -> None:
        now_ms = int(time.time() * 1000)
        removed = [
            RemoveAction(
                path=self._relative(file.path),
                data_change=False,
                deletion_timestamp=now_ms,
                size=file.bytes,
                partition_values={_DAY: _day(file)},
            )
            for file in old
        ]
        self._commit(table, [*self._added(new, is_new=False), *removed], [])

    def expire(self, seconds: float) -> int:
        """Do nothing: Delta expires versions itself, and their files are removed as orphans."""
        return 0

    def remove_orphans(self, seconds: float, snapshot_seconds: float = 0) -> int:
        # Delta keeps no list of states: a replaced file is needed as long as states that had it.
        hours = max(math.ceil(max(seconds, snapshot_seconds) / 3600), 1)
        removed = self.load().vacuum(
            hours, dry_run=False, enforce_retention_duration=False, full=True
        )
        return len(removed)

    def _commit(
        self,
        table: DeltaTable,
        actions: Sequence[AddAction | RemoveAction],
        transactions: list[Transaction],
    ) -> None:
        version = table.version()
        try:
            table.create_write_transaction(
                list(actions),
                "append",
                table.schema(),
                [_DAY],
                commit_properties=CommitProperties(
                    max_commit_retries=0, app_transactions=transactions
                ),
            )
        except CommitFailedError as error:
            raise CommitConflict(str(error)) from error
        except OSError as error:
            raise CommitUnknown(str(error)) from error
        self._make_durable(version + 1)

    def _make_durable(self, version: int) -> None:
        self.storage.make_durable([f"{self.storage.location}/_delta_log/{version:020d}.json"])

    def _options(self) -> dict[str, str] | None:
        return None if self.storage.is_local else self.storage.options.for_delta()

    def _app(self, field: str) -> str:
        """Return an application id for a field of `Batch`: the log stores one number per id."""
        return f"queen:{self.name}:{field}"

    def _added(self, files: Sequence[DataFile], *, is_new: bool) -> list[AddAction]:
        """Describe new files. Reading their footers also proves that they still exist."""

        def describe(file: DataFile) -> AddAction:
            with self.storage.read(file.path) as stream:
                footer = pq.read_metadata(stream)
            return AddAction(
                path=self._relative(file.path),
                size=file.bytes,
                partition_values={_DAY: _day(file)},
                modification_time=int(time.time() * 1000),
                data_change=is_new,
                stats=msgspec.json.encode(statistics(footer)).decode(),
            )

        with ThreadPoolExecutor(max(1, min(len(files), _READERS))) as pool:
            return list(pool.map(describe, files))

    def _relative(self, path: str) -> str:
        return path.removeprefix(self.storage.location + "/")


def statistics(footer: pq.FileMetaData) -> dict[str, Any]:
    """Return the bounds of a file's columns, by which readers skip files."""
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    for group in range(footer.num_row_groups):
        for position in range(footer.num_columns):
            column = footer.row_group(group).column(position)
            name, found = column.path_in_schema, column.statistics
            if name in _BOUNDED and found is not None and found.has_min_max:
                least[name] = min(least.get(name, found.min), found.min)
                most[name] = max(most.get(name, found.max), found.max)
    # A longer text would have to be cut, and the upper bound rounded up.
    names = [
        name for name in least if not isinstance(most[name], str) or len(most[name]) <= _LONGEST
    ]
    return {
        "numRecords": footer.num_rows,
        "minValues": {name: _bound(least[name]) for name in names},
        "maxValues": {name: _bound(most[name], is_upper=True) for name in names},
    }


def _rounded_up(bound: datetime | None) -> datetime | None:
    """Return an upper bound that is safe if a writer cut it to milliseconds, as Spark does."""
    return None if bound is None else bound + _CUT


def _bound(value: Any, *, is_upper: bool = False) -> Any:  # noqa: ANN401 - of a column
    """Return a bound as JSON. Times have milliseconds, rounded outwards."""
    if not isinstance(value, datetime):
        return value
    micros = value.microsecond % 1000
    rounded = value + timedelta(microseconds=(1000 - micros) if micros and is_upper else -micros)
    return (
        rounded.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.")
        + f"{rounded.microsecond // 1000:03d}Z"
    )


def _day(file: DataFile) -> str:
    assert file.day is not None
    return file.day.isoformat()
