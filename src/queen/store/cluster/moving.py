"""Move a slot to another database while it is in use."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

import asyncpg

from queen import errors, sql
from queen.store.cluster.copying import Copier, numbered
from queen.store.cluster.deadlines import ANSWER_SECONDS, PATIENT_SECONDS, Deadline, transaction
from queen.store.cluster.tables import BY_QUEUE, BY_SPREAD, LOCAL, SEGMENTS, TABLES

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

_LOG: Final = logging.getLogger("queen.store")
_SHORT_SECONDS: Final = 0.2
"""Once a round takes less than this, little is left, so the calls on the slot can wait for it."""
_MOST_ROUNDS: Final = 20
"""After this many rounds the slot moves too, although many rows of it change."""
_HANDOVER_SECONDS: Final = 4.0
"""Servers repeat rejected calls for five seconds."""
_PATIENCE: Final = """
select
  set_config('idle_in_transaction_session_timeout', '10s', true),
  set_config('lock_timeout', '3s', true)
"""
"""How long a process that is stopped in a transaction prevents others from continuing."""
_FEW: Final = 1_000
"""The hand-over copies at most this many segments, of this many bytes together."""
_LITTLE: Final = 4 << 20
_WAIT_SECONDS: Final = 1.0
"""Before the next attempt if something prevents the move now."""
_FORWARD_SECONDS: Final = 0.01
"""How often the hand-over checks whether messages have reached other databases."""
_ERASED: Final = 5_000
"""Rows that are erased in one transaction."""
_GONE: Final = "exists (select 1 from queen.slots s where s.slot = {slot} and s.state = 'gone')"
_LEFT: Final = f"{_GONE} and not exists (select 1 from queen.arrivals a where a.slot = {{slot}})"
"""The slot is not on its way back. If it is, the snapshot is older than all rows that arrive."""
_DURABLE: Final = """
select set_config('synchronous_commit', 'on', true)
where current_setting('synchronous_commit') in ('off', 'local')
"""
"""The other database forgets what this transaction has copied, so a crash must not undo it."""
_PATIENT: Final = ("next_segments", "forwards_of_slot", "forget_rewrites", "close_slot")
"""Statements that may take longer than others."""
_LOCKED: Final = "55P03"
_BUSY: Final = "QN025"


class Member(NamedTuple):
    """A database, by name and connection."""

    name: str
    connection: "Connection"


class Progress(NamedTuple):
    """What one step has done."""

    is_over: bool = False
    copied: int = 0
    """Bytes of messages, about."""
    pause_seconds: float = 0.0
    waits_for: str | None = None
    """What prevents the move now."""
    waited_seconds: float | None = None
    """How long calls waited, if the slot was handed over."""


class _Part(NamedTuple):
    """The next segments to copy."""

    copied: int
    """The last of their transactions."""
    segments: int
    size: int

    @property
    def is_large(self) -> bool:
        """Whether it is too large to be copied while calls wait."""
        return self.segments > _FEW or self.size > _LITTLE


class SlotMove:
    """
    One slot on its way from a database to another, in steps that any process can continue.

    Segments are copied by transaction, in the order of the source, then all other rows in rounds:
    those that changed since the last round. When a round is short, the source rejects calls on the
    slot, the last rows are copied, and the target owns the slot. All of this last copy is one
    transaction of the target, so the slot has one owner at any time.

    A process that was replaced cannot continue: it fails to lock the arrival of the slot.
    """

    def __init__(self, slot: int, source: Member, target: Member, first: Member) -> None:
        self._slot = slot
        self._source = source
        self._target = target
        self._first = first
        self._copier = Copier(source.connection, target.connection, slot)
        self._token = uuid4()
        self._servers: str | None = None
        """Between which servers this process moves the slot."""
        self._rounds = 0
        self._forwarded: int | None = None
        """The last message that was on its way to another database when this was last checked."""
        self._has_moved = False

    async def step(self) -> Progress:
        """Do the next part of the move. Raises SlotMoved if the source does not own the slot."""
        there = await self._state(self._source)
        here = await self._state(self._target)
        if here["state"] == "owned" and here["epoch"] >= there["epoch"]:
            if there["state"] == "owned":
                raise errors.DatabaseUnsafe(
                    f"slot {self._slot} is in {self._target.name}, but {self._source.name} accepts"
                    " messages for it too, because it was restored to a state before the move, or"
                    " its standby lacked the end of the move. Stop its clients, and compare both"
                    " databases before you erase one of them"
                )
            return await self._finish(here["epoch"])
        if self._has_moved:
            return Progress(is_over=True)  # Another move has followed.
        if there["state"] == "leaving" and there["moved_to"] != self._target.name:
            raise errors.SlotMoved(
                f"Slot {self._slot} moves to {there['moved_to']}. Continue that move first."
            )
        if there["state"] == "gone":
            raise errors.SlotMoved(
                f"Slot {self._slot} is in {there['moved_to']}, not in {self._source.name}."
            )
        try:
            # A copy that an earlier release began has no births.
            servers = f"{self._source.name} {there['server']} {here['server']} with births"
            if servers != self._servers:
                return await self._prepare(there, servers)
            if there["state"] == "leaving":
                return await self._hand_over()
            return await self._copy()
        except asyncpg.PostgresError as error:
            # The move is tried again.
            if error.sqlstate == _LOCKED:
                reason = "a transaction that uses the slot has not ended. Run `queen doctor`"
            elif error.sqlstate == _BUSY:
                reason = str(error)
            else:
                raise
            return Progress(pause_seconds=_WAIT_SECONDS, waits_for=reason)

    async def abandon(self) -> Progress:
        """
        Erase the copy that the source has forgotten, unless the slot has reached the hand-over.

        Then this completes the move.
        """
        there = await self._state(self._source)
        here = await self._state(self._target)
        has_left = there["moved_to"] == self._target.name
        if has_left or (here["state"] == "owned" and here["epoch"] > there["epoch"]):
            return await self.step()
        if here["state"] == "gone":
            await self._call(self._target, "receive_slot", self._source.name, self._token)
            await self._call(self._target, "restart_arrival", self._token)
            while await self._erase_arrived():
                pass
            await self._call(self._target, "end_arrival", self._token)
        return Progress(is_over=True)

    async def _prepare(self, there: asyncpg.Record, servers: str) -> Progress:
        """
        Take over from the process that began, or begin.

        A server that was restored, or a standby that took over, may lack transactions. So the copy
        starts again.
        """
        await self._call(self._target, "receive_slot", servers, self._token)
        async with self._arriving() as arrival:
            is_new = arrival["copied"] < 0 and not arrival["since"]
        is_copied = there["copied_to"] == self._target.name
        if is_new or not is_copied:
            await self._call(self._target, "restart_arrival", self._token)
            while await self._erase_arrived():
                pass
            total = await self._source.connection.fetchrow(sql.CALLS["slot_sizes"], self._slot)
            await self._call(self._target, "expect_bytes", total["bytes"] if total else 0)
        if not is_copied:
            await self._call(self._source, "copy_slot", self._target.name, self._token)
        await self._copier.prepare()
        self._servers = servers
        return Progress()

    async def _erase_arrived(self) -> bool:
        async with self._arriving():
            return await self._erase(self._target, _GONE)

    async def _copy(self) -> Progress:
        """Copy the next segments and, when few are left, a round of rows."""
        began_at = time.monotonic()
        async with self._arriving() as arrival:
            part = await self._copy_segments(arrival["copied"], ended=True)
        if part.is_large:
            # Half of the time is left to others.
            return Progress(copied=part.size, pause_seconds=time.monotonic() - began_at)
        began_at = time.monotonic()
        since = await self._value(self._source, "open_transaction")
        async with self._arriving() as arrival:
            notes = await self._copy_rows(arrival["copied"], arrival["since"])
            await self._value(self._target, "pass_rows", self._slot, since)
        await self._value(self._source, "forget_rewrites", notes)
        self._rounds += 1
        if (await self._next(part.copied, ended=False)).is_large:
            return Progress(
                copied=part.size,
                pause_seconds=_WAIT_SECONDS,
                waits_for=f"a transaction is open in {self._source.name}, and later messages are"
                " copied after its end",
            )
        if time.monotonic() - began_at < _SHORT_SECONDS or self._rounds >= _MOST_ROUNDS:
            if not await self._are_forwards_sent():
                return Progress(
                    pause_seconds=_WAIT_SECONDS,
                    waits_for=f"messages of transactions in {self._source.name} are on their way to"
                    " other databases",
                )
            return await self._hand_over()
        return Progress(copied=part.size)

    async def _next(self, copied: int, *, ended: bool) -> "_Part":
        row = await self._row(self._source, "next_segments", self._slot, copied + 1, ended)
        return _Part(copied if row["xid"] is None else row["xid"], row["segments"], row["bytes"])

    async def _copy_segments(self, copied: int, *, ended: bool) -> "_Part":
        """Copy the next segments. ``ended``: only of transactions before all open ones."""
        part = await self._next(copied, ended=ended)
        if part.segments:
            xid = await self._value(self._target, "this_transaction")
            for chosen in (BY_QUEUE, BY_SPREAD):
                await self._copier.add_segments(
                    f"{chosen.format(slot=self._slot)} and t.body is not null"
                    f" and t.xid >= '{copied + 1}' and t.xid <= '{part.copied}'",
                    xid,
                )
            await self._call(self._target, "pass_segments", part.copied, part.size)
        return part

    async def _copy_rows(self, copied: int, since: int) -> list[int]:
        """Copy what has changed besides new segments. Returns the notes of changed segments."""
        await self._copier.copy_definitions()
        newer = _newer(since)
        for table in TABLES:
            await self._copier.put(table, f"{table.chosen(self._slot)} and {newer}")
        await self._copier.merge(newer)
        return await self._copy_rewrites(copied, since)

    async def _copy_rewrites(self, copied: int, since: int) -> list[int]:
        """Copy partitions whose segments were removed or changed. Returns their notes."""
        if not since:
            # Those that were emptied before.
            for chosen in (BY_QUEUE, BY_SPREAD):
                is_empty = f"{chosen.format(slot=self._slot)} and t.body is null"
                await self._copier.put(SEGMENTS, is_empty)
        notes: list[int] = []
        while rows := await self._source.connection.fetch(
            sql.CALLS["rewrites"], self._slot, notes[-1] if notes else 0
        ):
            notes += [row["id"] for row in rows]
            partitions = sorted({row["partition_id"] for row in rows})
            await self._copier.drop_segments(partitions)
            await self._copier.put(
                SEGMENTS,
                f"t.partition_id in ({', '.join(map(str, partitions))}) and {_newer(since)}"
                f" and (t.body is null or t.xid < '{copied + 1}')",
                xid=numbered(await self._value(self._target, "this_transaction")),
            )
        return notes

    async def _are_forwards_sent(self) -> bool:
        """
        Whether messages that transactions of this slot send to other databases arrive soon.

        The hand-over waits for them, so that those of later transactions in the target can't
        overtake them. It can't wait for long, so what was on its way at the last check is stored.
        """
        row = await self._row(self._source, "forwards_of_slot", self._slot)
        earlier, self._forwarded = self._forwarded, row["last"]
        return row["first"] is None or (earlier is not None and row["first"] > earlier)

    async def _wait_for_forwards(self) -> None:
        query = "forwards_of_slot", self._slot
        while (await self._row(self._source, *query))["first"]:  # noqa: ASYNC110 - no event says so
            await asyncio.sleep(_FORWARD_SECONDS)

    async def _hand_over(self) -> Progress:
        """Make the target the owner. Calls on the slot are rejected meanwhile."""
        counts = await self._copier.count()
        began_at = time.monotonic()
        left = await self._row(
            self._source, "leave_slot", self._slot, self._target.name, self._token
        )
        epoch = left["epoch"] + 1
        is_ending = False
        try:
            async with asyncio.timeout(_HANDOVER_SECONDS) as limit:
                fence = await self._value(self._source, "newest")
                await self._value(
                    self._target, "pass_ids", left["partition_id"], left["delivery_id"]
                )
                await self._wait_for_forwards()
                async with self._arriving() as arrival:
                    await self._copy_last(arrival, counts)
                    await self._call(
                        self._target, "record_move", epoch, self._copier.birthplace, fence
                    )
                    await self._call(self._target, "own_slot", self._token, epoch)
                    if limit.expired():
                        raise TimeoutError("the hand-over took too long")
                    limit.reschedule(None)  # The commit has a limit of its own.
                    is_ending = True
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
            # If the commit was sent, only the target knows whether the slot has moved.
            if not is_ending:
                await self._value(self._source, "keep_slot", self._slot, self._token)
            raise
        await self._close(epoch)
        waited = time.monotonic() - began_at
        _LOG.info(
            "slot %d is in %s now; its calls waited %.0f ms",
            self._slot,
            self._target.name,
            waited * 1000,
        )
        return Progress(waited_seconds=waited)

    async def _copy_last(self, arrival: asyncpg.Record, counts: dict[str, int]) -> None:
        """Copy all that is not here yet. The source rejects all changes meanwhile."""
        part = await self._copy_segments(arrival["copied"], ended=False)
        while part.segments:
            part = await self._copy_segments(part.copied, ended=False)
        await self._copier.copy_definitions()
        newer = _newer(arrival["since"])
        there = await self._copier.look(newer)
        for table in TABLES:
            if there[table.name][1]:
                rows = f"{table.chosen(self._slot)} and {newer}"
                counts[table.name] += await self._copier.put(table, rows)
        await self._copier.merge(newer)
        await self._copy_rewrites(part.copied, arrival["since"])
        await self._copier.drop_rows({name for name in there if there[name][0] != counts[name]})

    async def _close(self, epoch: int) -> None:
        for member, call in ((self._source, "close_slot"), (self._first, "record_owner")):
            await self._value(member, call, self._slot, self._target.name, epoch)

    async def _finish(self, epoch: int) -> Progress:
        """Erase the rows of the former owner."""
        self._has_moved = True
        # Also if it is closed, because the process may have died before the first database knew.
        await self._close(epoch)
        return Progress(is_over=not await self._erase(self._source, _LEFT))

    async def _erase(self, member: Member, condition: str) -> bool:
        """Erase rows of a slot under a condition for it. Returns whether there may be more."""
        connection = member.connection
        for table in (*LOCAL, SEGMENTS, *reversed(TABLES)):
            if table.is_kept:
                continue
            status = await connection.execute(
                f"delete from queen.{table.name} t where (t.tableoid, t.ctid) in ("
                f" select t.tableoid, t.ctid from queen.{table.name} t"
                f" where {table.chosen(self._slot)} and {condition.format(slot=self._slot)}"
                f" limit {_ERASED})"
            )
            if status == f"DELETE {_ERASED}":
                return True
        return False

    @asynccontextmanager
    async def _arriving(self) -> AsyncGenerator[asyncpg.Record]:
        """A transaction of the target, while no other process continues the move."""
        connection = self._target.connection
        async with transaction(connection):
            with Deadline(ANSWER_SECONDS, connection):
                await connection.execute(_PATIENCE)
                await connection.execute(_DURABLE)
                rows = await connection.fetch(sql.CALLS["lock_arrival"], self._slot, self._token)
            if not rows:
                raise errors.SlotMoved(f"Another process moves slot {self._slot}.")
            yield rows[0]

    async def _state(self, member: Member) -> asyncpg.Record:
        return await self._row(member, "slot_state", self._slot)

    async def _call(self, member: Member, name: str, *arguments: object) -> None:
        await self._value(member, name, self._slot, *arguments)

    async def _value(self, member: Member, name: str, *arguments: object) -> Any:  # noqa: ANN401 - any column
        rows = await self._fetch(member, name, *arguments)
        return rows[0][0] if rows else None

    async def _row(self, member: Member, name: str, *arguments: object) -> asyncpg.Record:
        return (await self._fetch(member, name, *arguments))[0]

    async def _fetch(self, member: Member, name: str, *arguments: object) -> list[asyncpg.Record]:
        seconds = PATIENT_SECONDS if name in _PATIENT else ANSWER_SECONDS
        with Deadline(seconds, member.connection):
            return await member.connection.fetch(sql.CALLS[name], *arguments)


def _newer(since: int) -> str:
    return f"queen.is_newer(t.xmin, {since})"
