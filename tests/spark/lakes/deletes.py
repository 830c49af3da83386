"""Delete rows of an Iceberg table as Spark does with merge-on-read, which pyiceberg only reads."""

# pyright: basic
import os
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
)
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles

_POSITIONS = pa.schema(
    [
        pa.field("file_path", pa.string(), False, {"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), False, {"PARQUET:field_id": "2147483545"}),
    ]
)


class _DeletesWriter(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class _DeleteRows(_FastAppendFiles):
    file: DataFile

    def _manifests(self) -> Any:  # noqa: ANN401
        entry = ManifestEntry.from_args(
            status=ManifestEntryStatus.ADDED, snapshot_id=self._snapshot_id, data_file=self.file
        )
        output = self.new_manifest_output()
        spec = self.spec(self.file.spec_id)
        with _DeletesWriter(spec, self.schema(), output, self._snapshot_id, "null") as writer:
            writer.add(entry)
        return [writer.to_manifest_file(), *self._existing_manifests()]


def delete_by_position(table: Table, path: str, positions: list[int]) -> None:
    """Commit a file with the positions of deleted rows of a data file."""
    data = next(task.file for task in table.scan().plan_files() if task.file.file_path == path)
    target = f"{path.removesuffix('.parquet')}-{len(positions)}-deletes.parquet"
    pq.write_table(pa.table([[path] * len(positions), positions], schema=_POSITIONS), target)
    transaction = table.transaction()
    rows = _DeleteRows(Operation.APPEND, transaction, table.io)
    rows.file = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=target,
        file_format=FileFormat.PARQUET,
        partition=data.partition,
        record_count=len(positions),
        file_size_in_bytes=os.path.getsize(target),
    )
    rows.file.spec_id = data.spec_id
    rows.commit()
    transaction.commit_transaction()
