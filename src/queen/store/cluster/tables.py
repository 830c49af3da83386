"""The rows of a slot, in all tables."""

from collections.abc import Mapping
from typing import Final, NamedTuple


class Table(NamedTuple):
    """A table with rows of slots."""

    name: str
    key: tuple[str, ...]
    """The columns that identify a row in all databases."""
    rows: str
    """The condition for the rows ``t`` of the slot ``{slot}``."""
    omitted: frozenset[str] = frozenset()
    """Columns that each database fills by itself."""
    replaced: Mapping[str, str] = {}
    """Columns with another value in the copy. ``{birthplace}`` is that of the source."""
    clash: str = ""
    """The condition for a row ``t`` that was replaced by ``n``, which has another key."""
    is_soft: bool = False
    """A row that was replaced is only marked as deleted, because others are found through it."""
    is_fixed: bool = False
    """Its rows never change."""
    is_kept: bool = False
    """The former owner keeps the rows, because other slots may need them."""

    def chosen(self, slot: int) -> str:
        return self.rows.format(slot=slot)


BY_QUEUE: Final = "t.queue_id in (select q.id from queen.queues q where q.slot = {slot})"
_BY_PARTITION: Final = (
    "t.partition_id between {slot}::bigint << 53 and {slot}::bigint << 53 | 9007199254740991"
)
BY_SPREAD: Final = f"t.queue_id in (select queen.spread_in({{slot}})) and {_BY_PARTITION}"
"""Rows of spread queues, of which only some partitions are in the slot."""
_BY_ID: Final = _BY_PARTITION.replace("partition_id", "id")
_NAMED: Final = "t.queue in (select h.name from queen.homes h where h.slot = {slot})"
_LIMITED: Final = (
    "t.group_id in (select g.id from queen.groups g join queen.queues q on q.id = g.queue_id"
    " where q.slot = {slot})"
)
_OF_TRACES: Final = f"t.trace_id in (select t.id from queen.traces t where {_BY_PARTITION})"
_WITH_LETTERS: Final = (
    f"({BY_QUEUE} or t.queue_id in (select l.queue_id from queen.dead_letters l where"
    f" {_BY_PARTITION.replace('t.', 'l.')}))"
    " and t.queue_id not in (select d.queue_id from queen.definitions d)"
)
"""Dead letters stay after their queue was deleted, and so do their data keys."""
KEYS_OF_SPREAD: Final = (
    "t.queue_id in (select d.queue_id from queen.definitions d where d.queue_id in ("
    "select queen.spread_in({slot}) union select l.queue_id from queen.dead_letters l"
    f" where {_BY_PARTITION.replace('t.', 'l.')}))"
)
"""Data keys of spread queues, which other slots need too."""
_HASHED: Final = (
    f"(exists (select 1 from queen.dedup_rows t where {_BY_PARTITION})"
    f" or exists (select 1 from queen.scheduled t where {_BY_PARTITION}))"
)
"""Keys don't tell their partition. So a slot with any gets those of all slots, which harms none."""

_EARLIEST: Final = "case when t.{column} is not null then '3'::xid8 end"
"""Transaction numbers of another server mean nothing. 3 is the first one."""


def _early(*columns: str) -> Mapping[str, str]:
    return {column: _EARLIEST.format(column=column) for column in columns}


_BORN: Final = {
    "born_in": "coalesce(t.born_in, {birthplace})",
    "born_xid": "coalesce(t.born_xid, t.xid)",
}
"""The database and the transaction that stored a message first, which no move changes."""

SEGMENTS: Final = Table("segments", ("partition_id", "base_offset"), _BY_PARTITION, replaced=_BORN)
"""Copied by transaction, because they are most of the data and don't change."""

SCHEDULED: Final = Table("scheduled", ("id",), _BY_PARTITION)

TABLES: Final = (
    Table(
        "queues",
        ("id",),
        "t.slot = {slot}",
        clash="t.name = n.name and t.deleted_at is null and n.deleted_at is null",
        is_soft=True,
    ),
    Table("homes", ("name",), "t.slot = {slot}", is_fixed=True, is_kept=True),
    Table(
        "groups",
        ("id",),
        BY_QUEUE,
        clash="t.queue_id = n.queue_id and t.name = n.name and t.deleted_at is null"
        " and n.deleted_at is null",
        is_soft=True,
    ),
    Table(
        "partitions",
        ("id",),
        _BY_ID,
        clash="t.queue_id = n.queue_id and t.name = n.name and t.level = n.level",
    ),
    Table("consumers", ("partition_id", "group_id"), _BY_PARTITION),
    Table("deliveries", ("id",), _BY_ID),
    Table("limits", ("group_id",), _LIMITED),
    Table("leaving_leases", ("slot", "group_id"), "t.slot = {slot}"),
    Table("dead_letters", ("partition_id", '"offset"', "group_id"), _BY_PARTITION),
    SCHEDULED,
    Table("schedules", ("name",), _NAMED),
    Table("results", ("queue_id", "transaction_id"), f"({BY_QUEUE} or {BY_SPREAD})"),
    Table("traces", ("id",), _BY_PARTITION),
    Table("trace_names", ("name", "trace_id"), _OF_TRACES),
    Table("data_keys", ("id",), _WITH_LETTERS),
    Table("dedup_blocks", ("partition_id", "base_offset", "generation"), _BY_PARTITION),
    Table("dedup_rows", ("partition_id",), _BY_PARTITION),
    Table("dedup", ("key", "at", "generation"), _HASHED, is_kept=True),
    Table("publications", ("app_id", "queue_id"), BY_QUEUE),
    Table("laggards", ("partition_id", "kind"), _BY_PARTITION),
    Table(
        "redactions",
        ("partition_id", '"offset"'),
        _BY_PARTITION,
        omitted=frozenset({"id"}),
    ),
    Table(
        "removals",
        ("partition_id", "first_offset", "end_offset", "removed_at"),
        _BY_PARTITION,
        omitted=frozenset({"id"}),
        replaced={
            **_early("xid", "by_xid"),
            **_BORN,
            "by_in": "coalesce(t.by_in, {birthplace})",
            "by_born": "coalesce(t.by_born, t.by_xid)",
        },
    ),
    Table("forgotten_removals", ("queue_id",), BY_QUEUE, replaced=_early("xid", "by_xid")),
    Table("counters", ("queue_id", "minute", "group_id", "process"), BY_QUEUE),
    Table("samples", ("queue_id", "minute", "group_id"), BY_QUEUE),
    # Transaction numbers of another server mean nothing, so a copied hold keeps all messages.
    Table("holds", ("queue_id", "name"), BY_QUEUE, replaced={"xid": "'0'::xid8"}),
    Table("moves", ("slot", "epoch"), "t.slot = {slot}", is_fixed=True, is_kept=True),
    Table(
        "rollups",
        ("queue_id", "grain_seconds", "at", "group_id"),
        BY_QUEUE,
        replaced=_early("xid"),
    ),
)
"""All other tables, in an order in which each condition finds its rows."""

LOCAL: Final = (
    Table("sweeps", (), BY_QUEUE),
    Table("plans", (), BY_QUEUE),
)
"""Positions of readers in this database. They are erased, not copied."""
