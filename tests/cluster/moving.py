"""Moves of a slot, step by step, as the mover makes them. Only rows of some tables are copied."""

import io
from collections.abc import Mapping
from typing import Final

from queen.codec.slots import hashed
from queen.store.migrations import connected

# Tables whose rows belong to a slot, with the condition for them. Producers belong to no slot.
_ROWS: Final = {
    "homes": "slot = {0}",
    "queues": "slot = {0}",
    "groups": "queue_id in (select id from queen.queues where slot = {0})",
    "partitions": "id >> 53 = {0}",
    "segments": "partition_id >> 53 = {0}",
    "consumers": "partition_id >> 53 = {0}",
    "deliveries": "id >> 53 = {0}",
    "scheduled": "partition_id >> 53 = {0}",
    "dedup_blocks": "partition_id >> 53 = {0}",
}
_FIRST: Final = "main"


class Move:
    """A slot that moves from one database to another."""

    def __init__(self, databases: Mapping[str, str], slot: int, source: str, target: str) -> None:
        self._databases = databases
        self._slot = slot
        self._source = source
        self._target = target

    async def run(self) -> None:
        """Move the slot."""
        await self.leave()
        await self.finish()

    async def finish(self) -> None:
        """Complete a move that has begun."""
        await self.arrive()
        await self.close()

    async def leave(self) -> None:
        """The source rejects calls from now on. Waiting pops are woken, and get SlotMoved."""
        await self._execute(
            self._source,
            f"""
            begin;
            select pg_advisory_xact_lock(hashtext('queen.slot'), {self._slot});
            select pg_advisory_xact_lock(hashtext('queen.slot'), 1024);
            update queen.slots set state = 'leaving', moved_to = '{self._target}'
            where slot = {self._slot};
            commit;
            select queen.wake_slot({self._slot}::smallint)
            """,
        )

    async def give_up(self) -> None:
        """The source owns the slot again."""
        await self._execute(
            self._source,
            "update queen.slots set state = 'owned', moved_to = null"
            f" where slot = {self._slot}; select queen.wake_slot({self._slot}::smallint)",
        )

    async def arrive(self) -> None:
        """Copy the rows. The target owns the slot from now on."""
        source, target = self._databases[self._source], self._databases[self._target]
        async with connected(source) as old, connected(target) as new, new.transaction():
            for table, condition in _ROWS.items():
                rows = io.BytesIO()
                await old.copy_from_query(
                    f"select * from queen.{table} where {condition.format(self._slot)}",
                    output=rows,
                    format="binary",
                )
                rows.seek(0)
                own = condition.format(self._slot)
                await new.execute(f"delete from queen.{table} where {own}")
                await new.copy_to_table(table, schema_name="queen", source=rows, format="binary")
            producers = await old.fetch(
                "select producer_id, scope, sequence, at from queen.producers"
            )
            await new.executemany(
                "insert into queen.producers (producer_id, scope, sequence, at)"
                " values ($1, $2, $3, $4) on conflict (producer_id, scope) do update"
                " set sequence = greatest(producers.sequence, excluded.sequence)",
                [tuple(row) for row in producers],
            )
            for sequence in ("partitions_id_seq", "delivery_ids"):
                # The target must not repeat the ids of the source.
                last = await old.fetchval(f"select last_value from queen.{sequence}")
                await new.execute(
                    f"select setval('queen.{sequence}', greatest(last_value, $1))"
                    f" from queen.{sequence}",
                    last,
                )
            epoch = await old.fetchval("select epoch from queen.slots where slot = $1", self._slot)
            await new.execute(
                "update queen.slots set state = 'owned', moved_to = null, epoch = $2"
                " where slot = $1",
                self._slot,
                epoch + 1,
            )
        await self._execute(self._target, f"select queen.wake_slot({self._slot}::smallint)")

    async def close(self, *, removes_rows: bool = True) -> None:
        """The source deletes its rows, and the first database knows the owner."""
        deletions = [
            f"delete from queen.{table} where {condition.format(self._slot)};"
            for table, condition in reversed(_ROWS.items())
            if table != "homes" and removes_rows
        ]
        await self._execute(
            self._source,
            f"begin; {' '.join(deletions)} update queen.slots set state = 'gone',"
            f" moved_to = '{self._target}', epoch = epoch + 1 where slot = {self._slot}; commit",
        )
        if self._target != _FIRST:
            await self._execute(
                _FIRST,
                f"update queen.slots set moved_to = '{self._target}'"
                f" where slot = {self._slot} and state <> 'owned'",
            )

    async def count(self, database: str, table: str = "segments") -> int:
        """The number of rows of the slot in a database."""
        condition = _ROWS[table].format(self._slot)
        async with connected(self._databases[database]) as connection:
            found: int = await connection.fetchval(
                f"select count(*) from queen.{table} where {condition}"
            )
            return found

    async def _execute(self, database: str, statements: str) -> None:
        async with connected(self._databases[database]) as connection:
            await connection.execute(statements)


def move(databases: Mapping[str, str], queue: str, source: str, target: str) -> Move:
    """The move of a queue whose slot was chosen by its name."""
    return Move(databases, hashed(queue), source, target)
