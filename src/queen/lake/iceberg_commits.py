"""
Commits to an Iceberg table whose cost does not grow with the number of commits.

Three parts use names of pyiceberg that are not public, because it has no public ones yet:

- `Commit` reduces the metadata that pyiceberg copies for each of its steps.
- `Commit.replace_files` commits files as `replace`. A streaming reader skips such a snapshot, but
  stops at `overwrite`, the only operation that pyiceberg offers for files that replace others.
- The properties of the table limit the number of manifests and of old metadata files.
"""

# pyright: basic
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Final

from pyiceberg.manifest import DataFile as IcebergFile, ManifestFile
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import RemoveSnapshotsUpdate, update_table_metadata
from pyiceberg.table.update.snapshot import _MergeAppendFiles, _OverwriteFiles

PROPERTIES: Final = {
    "commit.manifest-merge.enabled": "true",
    # Each commit lists all manifests, so they are merged early, but not into ever larger ones.
    "commit.manifest.min-count-to-merge": "40",
    "commit.manifest.target-size-bytes": str(256 * 2**10),
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "write.metadata.metrics.column.payload": "none",
    "write.metadata.metrics.column.headers": "none",
}
FORMER_PROPERTIES: Final = ("commit.retry.num-retries",)
"""Properties of earlier releases, which kept other writers from repeating a commit too."""
_DROPPED: Final = "queen.dropped-manifests"
"""Property of a snapshot: manifests of its parent that it does not have, by file name."""


class Commit(Transaction):
    """A transaction that copies the description of the current snapshot only, not of all."""

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        heads = {ref.snapshot_id for ref in table.metadata.refs.values()}
        snapshots = [each for each in table.metadata.snapshots if each.snapshot_id in heads]
        slim = {"snapshots": snapshots, "snapshot_log": [], "metadata_log": []}
        self._base = table.metadata.model_copy(update=slim)
        self._applied: tuple[object, TableMetadata] = ((), self._base)
        self.written: list[str] = []
        """New manifests."""
        self.removable: list[str] = []
        """Metadata files that no snapshot needs after this commit."""

    @property
    def table_metadata(self) -> TableMetadata:
        if self._applied[0] is not self._updates:
            known = [each for each in self._updates if not isinstance(each, RemoveSnapshotsUpdate)]
            self._applied = (self._updates, update_table_metadata(self._base, tuple(known)))
        return self._applied[1]

    def _register_snapshot_producer(self, producer: Any) -> None:  # noqa: ANN401 - of pyiceberg
        # A transaction that knows its snapshots repeats them after a conflict, and deletes their
        # manifests after the last. A repetition would append a batch without reading its number
        # again. A catalog that repeats a request by itself reports its own first attempt as a
        # conflict, so the files may be committed. The compaction removes them otherwise.
        pass

    def append_files(self, files: Iterable[IcebergFile], summary: dict[str, str]) -> None:
        """Add a snapshot with more files."""
        snapshot = _AppendFiles(Operation.APPEND, self, self._table.io, snapshot_properties=summary)
        with snapshot:
            for file in files:
                snapshot.append_data_file(file)
        self.written = snapshot._written_manifests

    def replace_files(self, old: Iterable[IcebergFile], new: Iterable[IcebergFile]) -> None:
        """Add a snapshot with the same rows in other files."""
        snapshot = _ReplaceFiles(Operation.REPLACE, self, self._table.io)
        with snapshot:
            for file in old:
                snapshot.delete_data_file(file)
            for file in new:
                snapshot.append_data_file(file)
        self.written = snapshot._written_manifests

    def expire_beyond(self, max_snapshots: int) -> None:
        """Expire the oldest snapshots if there are too many. Heads of branches and tags stay."""
        metadata = self._table.metadata
        excess = len(metadata.snapshots) + 1 - max_snapshots  # The new snapshot counts too.
        if excess < 1:
            return
        heads = {ref.snapshot_id for ref in metadata.refs.values()}
        by_age = sorted(metadata.snapshots, key=lambda each: each.sequence_number or 0)
        expired = [each for each in by_age[:excess] if each.snapshot_id not in heads]
        if not expired:
            return
        ids = [each.snapshot_id for each in expired]
        self._apply((RemoveSnapshotsUpdate.model_validate({"snapshot-ids": ids}),))
        # After a rollback, a snapshot can need manifests that an older one has dropped.
        is_linear = heads == {by_age[-1].snapshot_id} and all(
            child.parent_snapshot_id == parent.snapshot_id for parent, child in pairwise(by_age)
        )
        if is_linear:
            self.removable = [
                *(each.manifest_list for each in expired),
                *(path for each in by_age[: excess + 1] for path in _dropped(each)),
            ]


def _dropped(snapshot: Snapshot) -> list[str]:
    names = (snapshot.summary[_DROPPED] or "") if snapshot.summary else ""
    folder = snapshot.manifest_list.rpartition("/")[0]
    return [f"{folder}/{name}" for name in names.split() if "/" not in name]


class _RecordsDropped:
    """Records the manifests of the parent that a new snapshot replaces."""

    _before: list[ManifestFile]

    def _parent_manifests(self) -> list[ManifestFile]:
        this: Any = self
        parent = this._transaction.table_metadata.snapshot_by_id(this._parent_snapshot_id)
        return [] if parent is None else parent.manifests(this._io)

    def _manifests(self) -> list[ManifestFile]:
        this: Any = self
        found = super()._manifests()  # type: ignore[misc]
        kept = {each.manifest_path for each in found}
        dropped = [each.manifest_path for each in self._before if each.manifest_path not in kept]
        if dropped:
            names = " ".join(path.rpartition("/")[2] for path in dropped)
            this.snapshot_properties = {**this.snapshot_properties, _DROPPED: names}
        return found


class _AppendFiles(_RecordsDropped, _MergeAppendFiles):
    def _existing_manifests(self) -> list[ManifestFile]:
        # As in pyiceberg, but it reads the list only once.
        self._before = self._parent_manifests()
        return [
            each for each in self._before if each.has_added_files() or each.has_existing_files()
        ]


class _ReplaceFiles(_RecordsDropped, _OverwriteFiles):
    def _existing_manifests(self) -> list[ManifestFile]:
        self._before = self._parent_manifests()
        return super()._existing_manifests()

    def _summary(self, snapshot_properties: dict[str, str] = {}) -> Summary:  # noqa: B006
        # pyiceberg sums up other operations only.
        self._operation = Operation.OVERWRITE
        summary = super()._summary(snapshot_properties)
        return Summary(Operation.REPLACE, **summary.additional_properties)
