"""The connections of a process that moves slots."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeVar

import asyncpg

from queen import errors, sql
from queen.store.cluster.deadlines import ANSWER_SECONDS, Deadline, connected_for_moves
from queen.store.cluster.joining import give
from queen.store.cluster.moving import Member, Progress, SlotMove

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

T = TypeVar("T")

_STEP_SECONDS: Final = 600.0
"""A step that takes longer is repeated with new connections."""
_LAST_SECONDS: Final = 10.0
"""How long a step may continue when the process stops. A hand-over takes up to four seconds."""
_GIVE_SECONDS: Final = 10.0
"""For empty slots, which have nothing to copy."""


class Move(NamedTuple):
    """A slot and its two databases."""

    slot: int
    source: str
    target: str


class Mover:
    """
    Moves slots, one at a time.

    After an error it opens new connections, and continues from the state in the databases.
    """

    def __init__(self, databases: Mapping[str, str], *, is_pooled: bool = False) -> None:
        """
        ``databases``: connection URLs by name, the first database first.

        ``is_pooled``: they lead through PgBouncer.
        """
        self._databases = dict(databases)
        self._is_pooled = is_pooled
        self._first = next(iter(self._databases))
        self._opened = contextlib.AsyncExitStack()
        self._connections: dict[str, Connection] = {}
        self._current: tuple[Move, SlotMove] | None = None
        self._latest: tuple[Move, float] | None = None
        """The last move, and when this process began it. Errors don't change it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._drop()

    def has_begun(self, move: Move) -> bool:
        """Whether this is the current move."""
        return self._current is not None and self._current[0] == move

    @property
    def seconds(self) -> float:
        """How long this process has been moving the slot of the last step."""
        return 0.0 if self._latest is None else time.monotonic() - self._latest[1]

    async def step(self, move: Move) -> Progress:
        """Do the next part of a move."""
        if self._latest is None or self._latest[0] != move:
            self._latest = move, time.monotonic()
        return await self._run(lambda: self._step(move))

    async def abandon(self, move: Move) -> Progress:
        """Erase the copy, or complete the hand-over. It is called until it is over."""
        return await self._run(lambda: self._abandon(move))

    async def give(self, slots: list[int], source: str, target: str) -> set[int]:
        """Move those slots that are empty at once, and those that have begun. Returns them."""

        async def work() -> set[int]:
            await self._check(target)
            return await self._give(slots, source, target)

        return await self._run(work)

    async def _give(self, slots: list[int], source: str, target: str) -> set[int]:
        old, new, first = [await self._connection(each) for each in (source, target, self._first)]
        with Deadline(_GIVE_SECONDS, old, new, first):
            return await give(old, new, first, target, slots)

    async def _step(self, move: Move) -> Progress:
        if not self.has_begun(move):
            await self._check(move.target)
            await self._abandon_earlier(move)
        return await (await self._move(move)).step()

    async def _abandon(self, move: Move) -> Progress:
        # Before it needs the target, which may be unavailable.
        source = await self._connection(move.source)
        with Deadline(ANSWER_SECONDS, source):
            await source.execute(sql.CALLS["forget_copy"], move.slot, move.target)
        await self._give([], move.source, move.target)
        return await (await self._move(move)).abandon()

    async def _abandon_earlier(self, move: Move) -> None:
        """Erase what an earlier move to another database has left there."""
        connection = await self._connection(move.source)
        with Deadline(ANSWER_SECONDS, connection):
            state = await connection.fetchrow(sql.CALLS["slot_state"], move.slot)
        assert state is not None
        earlier: str | None = state["copied_to"]
        if state["state"] == "owned" and earlier in self._databases and earlier != move.target:
            former = move._replace(target=earlier)
            # Its rows are erased at the latest when the slot moves there.
            with contextlib.suppress(errors.DatabaseUnavailable):
                while not (await self._abandon(former)).is_over:
                    pass

    async def _move(self, move: Move) -> SlotMove:
        if self._current is None or self._current[0] != move:
            source, target, first = [
                Member(name, await self._connection(name))
                for name in (move.source, move.target, self._first)
            ]
            self._current = move, SlotMove(move.slot, source, target, first)
        return self._current[1]

    async def _check(self, target: str) -> None:
        """Raise NotFound if the target was removed."""
        first = await self._connection(self._first)
        with Deadline(ANSWER_SECONDS, first):
            rows = await first.fetch(sql.CALLS["databases"])
        if target not in {row["name"] for row in rows}:
            raise errors.NotFound(f"database {target} was removed")

    async def _connection(self, name: str) -> "Connection":
        if name not in self._connections:
            if name not in self._databases:
                raise errors.DatabaseUnavailable(
                    f"QUEEN_DATABASES of this server lacks database {name}"
                )
            try:
                self._connections[name] = await self._opened.enter_async_context(
                    connected_for_moves(self._databases[name], is_pooled=self._is_pooled)
                )
            except errors.DatabaseUnavailable as error:
                raise errors.DatabaseUnavailable(f"database {name}: {error}") from error
        return self._connections[name]

    async def _run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run a step to its end, also if the process stops, because a hand-over rejects calls."""

        async def limited() -> T:
            async with asyncio.timeout(_STEP_SECONDS):
                return await work()

        task = asyncio.create_task(limited())
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait([task], timeout=_LAST_SECONDS)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            raise
        except Exception as error:
            await self._drop()
            if (mapped := _mapped(error)) is not None:
                raise mapped from error
            raise

    async def _drop(self) -> None:
        for each in self._connections.values():
            each.terminate()
        self._connections.clear()
        self._current = None
        await self._opened.aclose()


def _mapped(error: Exception) -> errors.QueenError | None:
    """The error for what PostgreSQL or a connection raised; None if there is none."""
    if isinstance(error, asyncpg.PostgresError):
        kind = errors.of_sqlstate(error.sqlstate or "")
        if kind is None:
            return None
        if issubclass(kind, errors.OutcomeUnknown):  # The next step reads the outcome.
            kind = errors.DatabaseUnavailable
        return kind(str(error))
    if isinstance(error, asyncpg.InterfaceError | OSError):  # TimeoutError is an OSError.
        return errors.DatabaseUnavailable(str(error) or "the step took too long")
    return None
