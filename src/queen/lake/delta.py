"""
A Delta table, through the package deltalake.

A batch is an application transaction in Delta's log. Delta does not reject a batch that the log
already contains. So each commit is made for exactly the version in which the batch number was read,
without retries: of two concurrent commits, one fails. A retry by deltalake would detect two
conflicting batches, but not two compactions of the same files, which would duplicate rows. It would
also commit a later version than the one whose log file is made durable.
"""

# pyright: basic
import time
from collections.abc import Sequence
from typing import Final

import msgspec
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from queen import errors
from queen.lake.day_files import SCHEMA
from queen.lake.lake import Batch, CommitConflict, CommitUnknown, DataFile, Lake
from queen.lake.storage import Storage

_DAY: Final = "day"
_SCHEMA: Final = pa.schema(
    [*(field.with_metadata({}) for field in SCHEMA), pa.field(_DAY, pa.date32(), nullable=False)]
)
_FIELDS: Final = Batch.__struct_fields__


class DeltaLake(Lake):
    """The table at a location, in directories by day."""

    def __init__(self, name: str, location: str, *, make: bool = False) -> None:
        super().__init__(name, Storage(location))
        if make:
            try:
                DeltaTable.create(
                    self.storage.location, schema=_SCHEMA, partition_by=[_DAY], mode="ignore"
                )
            except DeltaError as error:
                raise OSError(str(error)) from error
        elif not DeltaTable.is_deltatable(self.storage.location):
            raise errors.NotFound(f"the Delta table {location} does not exist")

    @property
    def folder(self) -> str:
        return self.storage.location

    def load_once(self) -> DeltaTable:
        return DeltaTable(self.storage.location)

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
            )
            for action in actions
        ]
        return sorted(files, key=lambda file: file.path)

    def append(self, table: DeltaTable, batch: Batch, files: Sequence[DataFile]) -> None:
        transactions = [Transaction(self._app(field), getattr(batch, field)) for field in _FIELDS]
        self._commit(table, [self._added(file, is_new=True) for file in files], transactions)

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
                partition_values={_DAY: file.day.isoformat()},
            )
            for file in old
        ]
        self._commit(table, [*(self._added(file, is_new=False) for file in new), *removed], [])

    def expire(self, seconds: float) -> int:
        """Do nothing: Delta expires versions itself, and their files are removed as orphans."""
        return 0

    def remove_orphans(self, seconds: float) -> int:
        hours = max(int(seconds // 3600), 1)
        removed = self.load().vacuum(
            hours, dry_run=False, enforce_retention_duration=False, full=True
        )
        return len(removed)

    def _commit(
        self,
        table: DeltaTable,
        actions: list[AddAction | RemoveAction],
        transactions: list[Transaction],
    ) -> None:
        version = table.version()
        try:
            table.create_write_transaction(
                actions,
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
        self.storage.make_durable([f"{self.storage.location}/_delta_log/{version + 1:020d}.json"])

    def _app(self, field: str) -> str:
        """Return an application id for a field of `Batch`: the log stores one number per id."""
        return f"queen:{self.name}:{field}"

    def _added(self, file: DataFile, *, is_new: bool) -> AddAction:
        return AddAction(
            path=self._relative(file.path),
            size=file.bytes,
            partition_values={_DAY: file.day.isoformat()},
            modification_time=int(time.time() * 1000),
            data_change=is_new,
            stats=msgspec.json.encode({"numRecords": file.messages}).decode(),
        )

    def _relative(self, path: str) -> str:
        return path.removeprefix(self.storage.location + "/")
