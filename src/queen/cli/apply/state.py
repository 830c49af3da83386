"""The present state of a server, to compare a manifest with."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeVar

import msgspec

from queen import errors
from queen.wire.access import Token
from queen.wire.options import QueueConfiguration, QueueOptions
from queen.wire.resources import QueueSummary, Schedule, ScheduleDetail

if TYPE_CHECKING:
    from queen import Queen

T = TypeVar("T")
K = TypeVar("K")

CONCURRENCY: Final = 16
"""Requests at a time."""
_PAGE: Final = 1_000
_FEW: Final = 50
"""Up to this many queues, one request each is faster than a list of all queues."""


class ScheduleState(msgspec.Struct, frozen=True):
    """A schedule with its message, which is masked if the queue is encrypted."""

    detail: ScheduleDetail
    message: Literal["plain", "masked", "unreadable"] = "plain"
    """Masked: it was revealed to be compared, but must not be printed."""


class State(msgspec.Struct, frozen=True, kw_only=True):
    """The queues, schedules and API keys that the caller may see."""

    defaults: QueueOptions
    queues: Mapping[str, QueueConfiguration]
    schedules: Mapping[str, Schedule]
    messages: Mapping[str, ScheduleState]
    """The schedules whose messages were requested."""
    keys: Mapping[str, list[Token]] | None
    """By name, which several keys can have. None: not requested."""


async def read_state(
    queen: "Queen", *, messages: Collection[str] | None, with_keys: bool, reveal: bool = True
) -> State:
    """
    Read the state.

    ``messages``: the schedules to read with their messages; None: all. ``reveal``: also those that
    are masked, if the caller may.
    """
    admin = queen.admin
    queues = {each.queue: each async for each in admin.configurations(limit=_PAGE)}
    schedules = {each.name: each async for each in admin.schedules(limit=_PAGE)}
    keys: dict[str, list[Token]] | None = None
    if with_keys:
        keys = {}
        async for each in admin.tokens(limit=_PAGE):
            keys.setdefault(each.name, []).append(each)
    wanted = [name for name in schedules if messages is None or name in messages]
    details = await for_each(wanted, lambda name: _read_schedule(queen, name, reveal))
    return State(
        defaults=await admin.default_options(),
        queues=queues,
        schedules=schedules,
        messages=details,
        keys=keys,
    )


async def _read_schedule(queen: "Queen", name: str, reveal: bool) -> ScheduleState:
    detail = await queen.admin.schedule(name)
    if not detail.masked:
        return ScheduleState(detail)
    if not reveal:
        return ScheduleState(detail, "unreadable")
    try:
        return ScheduleState(await queen.admin.schedule(name, reveal=True), "masked")
    except (errors.Forbidden, errors.EncryptionUnavailable):
        return ScheduleState(detail, "unreadable")


class Backlog(NamedTuple):
    """The messages that would be lost with a queue."""

    version: int
    """The version of the queue, which changes with its options."""
    messages: int | None
    """Unacknowledged and scheduled messages. None: too many to count."""


async def read_backlogs(queen: "Queen", names: Collection[str]) -> dict[str, Backlog]:
    """Count the messages of these queues. Queues that do not exist are left out."""
    admin = queen.admin
    if len(names) > _FEW:
        wanted = {*names}
        found = [each async for each in admin.queues(limit=_PAGE) if each.name in wanted]
    else:
        found = [each for each in (await for_each(names, _find(queen))).values() if each]
    return {each.name: Backlog(each.version, _messages(each)) for each in found}


def _find(queen: "Queen") -> Callable[[str], Awaitable[QueueSummary | None]]:
    async def find(name: str) -> QueueSummary | None:
        try:
            return await queen.admin.queue(name)
        except errors.QueueNotFound:
            return None

    return find


def _messages(queue: QueueSummary) -> int | None:
    if queue.pending is None or queue.scheduled is None:
        return None
    return queue.pending + queue.scheduled


async def for_each(items: Iterable[K], work: Callable[[K], Awaitable[T]]) -> dict[K, T]:
    """Do the work for each item, with a limited number of requests at a time."""
    room = asyncio.Semaphore(CONCURRENCY)

    async def one(item: K) -> tuple[K, T]:
        async with room:
            return item, await work(item)

    return dict(await asyncio.gather(*map(one, items)))
