"""Numbered requests: pushes to spread queues, and first outcomes of repeats."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from hashlib import sha256
from typing import Any, TypeAlias

from queen import errors
from queen.cluster.following import Following
from queen.cluster.results import ScatteredResult, grouped
from queen.engine.engine import Engine
from queen.engine.push.batches import PushResult
from queen.wire.messages import Pushed, PushItem

Push: TypeAlias = Callable[[int, Sequence[PushItem], dict[str, Any]], Awaitable[PushResult | None]]
"""Store the items of one slot, with these options of `Engine.push`. None: they are in another."""


class NumberedRequests:
    """
    Finds the first outcomes of numbered requests, and divides pushes by the slots of partitions.

    Each slot has a producer of its own, whose last number moves with the slot. So if one fails, a
    repeat of the request stores only what is missing. The slot of a partition depends only on its
    name, unless it is pinned. So a repeat is divided in the same way, however many databases there
    are.
    """

    def __init__(self, engines: Iterable[Engine], following: Following) -> None:
        self._engines = [*engines]
        self._following = following

    async def push(
        self,
        items: Sequence[PushItem],
        options: dict[str, Any],
        slot_of: Callable[[PushItem], int],
        push: Push,
    ) -> PushResult:
        """
        Store items of spread queues, those of each slot once.

        Raises SlotMoved if a partition is pinned or unpinned meanwhile.
        """
        parts = grouped(range(len(items)), lambda at: slot_of(items[at]))
        problem = await self._problem(items)

        async def store(slot: int, indexes: Sequence[int]) -> PushResult | None:
            some = [items[at] for at in indexes]
            own = {
                **options,
                "scope": f"{options['scope']}/{slot}",
                "digest": _digest_of_part(options["digest"], indexes),
            }
            if problem is None:
                return await push(slot, some, own)
            # It is stored if this is a repeat. Changes to its queues since then don't matter.
            if (first := await self._repeat(slot, some, own)) is None:
                raise problem
            return first

        found = await asyncio.gather(
            *(store(*each) for each in parts.items()), return_exceptions=True
        )
        results = [each for each in found if isinstance(each, PushResult)]
        if failure := errors.worst([each for each in found if isinstance(each, BaseException)]):
            if results and problem is None and isinstance(failure, errors.ServiceError):
                raise errors.OutcomeUnknown(
                    "Some messages of this request are stored, and others are not. Send it again"
                    f" with the same sequence: it stores those that are missing. ({failure})"
                ) from failure
            raise failure
        if len(results) < len(parts):
            raise errors.SlotMoved("A partition was pinned or unpinned.")
        answers: dict[int, Pushed] = {}
        for indexes, result in zip(parts.values(), results, strict=True):
            answers |= zip(indexes, result, strict=True)
        return ScatteredResult(
            [answers[at] for at in range(len(items))],
            is_buffered=any(each.is_buffered for each in results),
            is_replayed=all(each.is_replayed for each in results),
        )

    async def _problem(self, items: Sequence[PushItem]) -> errors.QueenError | None:
        """The reasons for which some items are rejected. Then those of other slots are too."""
        for engine in self._engines:
            if engine.push_fallback.is_buffering:
                continue  # It checks them by the options that it knows.
            try:
                await engine.check_push(items)
            except (errors.DatabaseUnavailable, errors.OutcomeUnknown, errors.SlotMoved):
                continue
            except errors.QueenError as error:
                return error
            break
        return None

    async def first_outcome(
        self, items: Sequence[PushItem], options: dict[str, Any]
    ) -> PushResult | None:
        """
        The outcome of a request that one of the databases has applied, or None.

        For a repeat whose database can't be found, for example because its queues were separated.
        Raises DatabaseUnavailable if a database that does not respond may have applied it.
        """
        failure: errors.QueenError | None = None
        for engine in self._engines:
            try:
                if (first := await engine.repeat_push(items, **_numbers(options))) is not None:
                    return first
            except (errors.DatabaseUnavailable, errors.OutcomeUnknown) as error:
                failure = error
        if failure is not None:
            raise errors.DatabaseUnavailable(f"it may have applied this request: {failure}")
        return None

    async def _repeat(
        self, slot: int, items: Sequence[PushItem], options: dict[str, Any]
    ) -> PushResult | None:
        return await self._following.follow(
            [slot],
            lambda: self._following.engine(slot).repeat_push(items, **_numbers(options)),
        )


def _numbers(options: dict[str, Any]) -> dict[str, Any]:
    return {name: options[name] for name in ("producer_id", "sequence", "scope", "digest")}


def _digest_of_part(digest: bytes | None, indexes: Sequence[int]) -> bytes | None:
    """
    The digest of a request's part for one slot.

    The part differs if a partition was unpinned before a repeat. An earlier part must not count as
    this one, because messages would be missing.
    """
    if digest is None:
        return None
    return sha256(digest + repr([*indexes]).encode()).digest()[: len(digest)]
