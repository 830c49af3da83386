"""Copy rows from one database to another."""

import asyncio
from collections.abc import AsyncGenerator, Container, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from queen import sql
from queen.store.cluster.deadlines import progressing
from queen.store.cluster.tables import (
    KEYS_OF_SPREAD,
    SCHEDULED,
    SEGMENTS,
    TABLES,
    Table,
)

if TYPE_CHECKING:
    import asyncpg

    Connection = asyncpg.Connection[asyncpg.Record]

_CHUNKS: Final = 8
"""How far the reading side may be ahead."""
_FRAME_BYTES: Final = 21
"""A binary copy without rows: its header and its end."""
_COLUMNS: Final = """
select c.relname as name, array_agg(quote_ident(a.attname) order by a.attnum) as columns
from pg_class c
join pg_attribute a on a.attrelid = c.oid
where c.relnamespace = 'queen'::regnamespace and a.attnum > 0 and not a.attisdropped
  and a.attgenerated = ''
  and c.relname = any ($1::text[])
group by c.relname
"""
_FORGET_KEYS: Final = """
delete from queen.dedup d
using {rows} and {is_gone} and d.key = t.key and d."offset" is null
  and not exists (
    select 1 from queen.scheduled t join arriving n on n.id = t.id where t.key = d.key
  )
"""
"""The keys of scheduled messages that were removed. Their rows don't tell the slot."""
_MERGE: Final = """
insert into queen.producers as p ({columns})
select {columns} from arriving
on conflict (producer_id, scope) do update set {values}
where p.sequence < excluded.sequence
"""


class Copier:
    """
    Copies rows of a slot between two databases, in transactions of the target.

    Rows arrive in a temporary table first. It is dropped with the transaction, so the connection
    may lead through a pooler.
    """

    def __init__(self, source: "Connection", target: "Connection", slot: int) -> None:
        self._source = source
        self._target = target
        self._slot = slot
        self._columns: dict[str, list[str]] = {}
        self.birthplace = 0
        """Where the messages of the source are born."""
        self._is_spread = True
        """Whether spread queues have rows in the slot."""

    async def prepare(self) -> None:
        """Read the columns of the tables, and the birthplace of the source."""
        self.birthplace = await self._source.fetchval(sql.CALLS["birthplace"])
        rows = await self._target.fetch(
            _COLUMNS, [*(each.name for each in (*TABLES, SEGMENTS)), "producers"]
        )
        self._columns = {row["name"]: row["columns"] for row in rows}

    async def put(self, table: Table, condition: str, **replaced: str) -> int:
        """
        Make rows of the target equal to those of the source. Returns how many more there are.

        ``condition``: the rows ``t`` of the source. ``replaced``: columns with another value.
        """
        names = self._names(table)
        chosen = self._chosen(table, names, replaced)
        query = f"select {chosen} from queen.{table.name} t where {condition}"
        columns = ", ".join(names)
        more = 0
        async with self._staged(query, f"select {columns} from queen.{table.name}") as count:
            if not count:
                return 0
            if not table.is_fixed:
                more -= await self._delete(table, _same(table))
            if table.is_soft:
                await self._target.execute(
                    f"update queen.{table.name} t set deleted_at = queen.now() from arriving n"
                    f" where {table.clash}"
                )
            elif table.clash:
                more -= await self._delete(table, table.clash)
            more += await self._change(
                f"insert into queen.{table.name} ({columns}) overriding system value"
                f" select {columns} from arriving{' on conflict do nothing' * table.is_fixed}"
            )
        return more

    async def _delete(self, table: Table, condition: str) -> int:
        return await self._change(
            f"delete from queen.{table.name} t using arriving n where {condition}"
        )

    async def _change(self, statement: str) -> int:
        """Change rows of the target. Returns how many."""
        return int((await self._target.execute(statement)).split()[-1])

    async def merge(self, condition: str) -> None:
        """Copy rows that both databases need from now on, because other slots use them too."""
        await self._merge_producers(condition)
        if self._is_spread:
            await self._merge_keys()

    async def _merge_keys(self) -> None:
        """
        Copy data keys of spread queues that the target does not have.

        All of them, because a key can be older than the first partition of its queue in the slot.
        """
        columns = ", ".join(self._columns["data_keys"])
        rows = KEYS_OF_SPREAD.format(slot=self._slot)
        query = f"select {columns} from queen.data_keys t where {rows}"
        async with self._staged(query, f"select {columns} from queen.data_keys") as count:
            if count:
                await self._target.execute(
                    f"insert into queen.data_keys ({columns}) select {columns} from arriving"
                    " on conflict do nothing"
                )

    async def copy_definitions(self) -> None:
        """Make sure that the target knows all groups of spread queues that the source knows."""
        rows = await self._source.fetch(sql.CALLS["definitions_in"], self._slot)
        here: dict[int, int] = {row["queue_id"]: row["revision"] for row in rows}
        self._is_spread = bool(here)
        if not here:
            return
        rows = await self._target.fetch(sql.CALLS["revisions"], [*here])
        there: dict[int, int] = {row["queue_id"]: row["revision"] for row in rows}
        for queue_id, revision in here.items():
            if there.get(queue_id, -1) < revision:
                definition = await self._source.fetchval(sql.CALLS["definition"], queue_id)
                await self._target.execute(sql.CALLS["apply_definition"], definition)

    async def _merge_producers(self, condition: str) -> None:
        """Copy producers whose last request is later than the one that the target knows."""
        names = self._columns["producers"]
        columns = ", ".join(names)
        query = f"select {columns} from queen.producers t where {condition}"
        async with self._staged(query, f"select {columns} from queen.producers") as count:
            if count:
                values = ", ".join(f"{each} = excluded.{each}" for each in names)
                await self._target.execute(_MERGE.format(columns=columns, values=values))

    async def add_segments(self, condition: str, xid: int) -> None:
        """Copy segments that the target does not have, with a transaction number of the target."""
        names = self._names(SEGMENTS)
        chosen = self._chosen(SEGMENTS, names, {"xid": numbered(xid)})
        query = f"select {chosen} from queen.segments t where {condition}"
        await self._copy(query, _into("segments", names, schema="queen"))

    async def drop_segments(self, partitions: Sequence[int]) -> None:
        """Remove segments of partitions from the target that the source does not have."""
        listed = ", ".join(map(str, partitions))
        query = (
            "select t.partition_id, t.base_offset, t.message_count, t.body is null as is_empty"
            f" from queen.segments t where t.partition_id in ({listed})"
        )
        async with self._staged(query, query, always=True):
            await self._target.execute(
                f"delete from queen.segments t where t.partition_id in ({listed}) and not exists ("
                " select 1 from arriving n"
                " where n.partition_id = t.partition_id and n.base_offset = t.base_offset"
                " and n.message_count = t.message_count and n.is_empty = (t.body is null))"
            )

    async def count(self) -> dict[str, int]:
        """The number of rows of the slot in each table of the target."""
        counts = ", ".join(f"(select count(*) from {self._rows(each)})" for each in TABLES)
        row = await self._target.fetchrow(f"select {counts}")
        assert row is not None
        return {each.name: row[at] for at, each in enumerate(TABLES)}

    async def look(self, newer: str) -> dict[str, tuple[int, int]]:
        """The number of rows of the slot in each table of the source, and of those that changed."""
        counts = ", ".join(
            f"(select array[count(*), count(*) filter (where {newer})] from {self._rows(each)})"
            for each in TABLES
        )
        row = await self._source.fetchrow(f"select {counts}")
        assert row is not None
        return {each.name: tuple(row[at]) for at, each in enumerate(TABLES)}

    async def drop_rows(self, tables: Container[str]) -> None:
        """Remove rows of the target that the source does not have. All others must be equal."""
        # Tables whose rows are found through others come later in the list, so they go first.
        for table in reversed(TABLES):
            if table.name in tables and not table.is_kept:
                await self._drop(table)

    async def _drop(self, table: Table) -> None:
        keys = ", ".join(f"t.{each}" for each in table.key)
        rows = self._rows(table)
        query = f"select {keys} from {rows}"
        is_gone = f"not exists (select 1 from arriving n where {_same(table)})"
        async with self._staged(query, query, always=True):
            if table is SCHEDULED:
                await self._target.execute(_FORGET_KEYS.format(rows=rows, is_gone=is_gone))
            await self._target.execute(f"delete from {rows} and {is_gone}")

    @asynccontextmanager
    async def _staged(self, query: str, like: str, *, always: bool = False) -> AsyncGenerator[int]:
        """
        Rows of the source in the temporary table ``arriving``. Gives their number.

        ``like``: a query of the target with the same columns. ``always``: create the table even
        without rows.
        """
        make = f"create temp table arriving on commit drop as select * from ({like}) l limit 0"
        if always:
            await self._target.execute(make)
        count = await self._copy(query, _into("arriving"), None if always else make)
        yield count
        if always or count:
            await self._target.execute("drop table arriving")

    async def _copy(self, query: str, into: Mapping[str, Any], first: str | None = None) -> int:
        """
        Copy the rows of a query at the source into a table of the target. Returns how many.

        ``first``: a statement of the target, if there are any rows.
        """
        chunks: asyncio.Queue[bytes | None] = asyncio.Queue(_CHUNKS)

        async def read() -> str:
            try:
                status = await self._source.copy_from_query(
                    query, output=chunks.put, format="binary"
                )
            except Exception:
                await chunks.put(None)
                raise
            await chunks.put(None)
            return status

        reading = asyncio.create_task(read())
        try:
            start = b""
            while len(start) <= _FRAME_BYTES and (chunk := await chunks.get()) is not None:
                start += chunk
            if len(start) > _FRAME_BYTES:
                if first is not None:
                    await self._target.execute(first)
                await self._fill(start, chunks, into)
            return int((await reading).split()[-1])
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _fill(
        self, start: bytes, chunks: "asyncio.Queue[bytes | None]", into: Mapping[str, Any]
    ) -> None:
        """Copy data into a table of the target. Raises TimeoutError if no more data arrives."""
        async with progressing(self._source, self._target) as pass_on:

            async def passing() -> AsyncGenerator[bytes]:
                pass_on()
                yield start
                while (chunk := await chunks.get()) is not None:
                    pass_on()
                    yield chunk

            await self._target.copy_to_table(source=passing(), format="binary", **into)

    def _chosen(self, table: Table, names: Sequence[str], replaced: Mapping[str, str]) -> str:
        """The columns of a copied row, with the values that replace those of the source."""
        values = {
            each: text.format(birthplace=self.birthplace) for each, text in table.replaced.items()
        }
        return ", ".join({**values, **replaced}.get(each, f"t.{each}") for each in names)

    def _rows(self, table: Table) -> str:
        return f"queen.{table.name} t where {table.chosen(self._slot)}"

    def _names(self, table: Table) -> list[str]:
        return [each for each in self._columns[table.name] if each not in table.omitted]


def numbered(xid: int) -> str:
    """The transaction number of a copied segment ``t``. Restored segments keep theirs, 0."""
    return f"case when t.xid = '0' then t.xid else '{xid}' end"


def _same(table: Table) -> str:
    return " and ".join(f"n.{each} = t.{each}" for each in table.key)


def _into(table: str, columns: Sequence[str] = (), schema: str | None = None) -> dict[str, Any]:
    names = [each.strip('"') for each in columns] or None
    return {"table_name": table, "schema_name": schema, "columns": names}
