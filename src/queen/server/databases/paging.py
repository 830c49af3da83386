"""Pages of sorted lists that become one list."""

import heapq
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from queen.server.http.call import Order, Paged

_NAMES: Final = ("queue", "name", "consumer_group", "partition_id")
"""The fields that identify an entry without an id."""


Cursors = dict[str, str | None]
"""The cursor in the list of each database that has more; None for its start."""


class Page(NamedTuple):
    """A page of one database."""

    entries: Sequence[Any]
    next_cursor: str | None


def first(
    pages: Mapping[str, Page],
    merge: Paged,
    order: Order,
    limit: int,
    is_foreign: Callable[[str, Any], bool],
) -> tuple[list[Any], dict[str, int]]:
    """
    The first entries of sorted pages, and how many each page contributes.

    A page can be short although its database has more entries, because a search ends after some
    time, or because others are foreign. Then the merged page ends there too. Otherwise later
    entries of other databases would come before them.
    """
    key, is_down = order
    taken = dict.fromkeys(pages, 0)
    entries: list[Any] = []
    streams = ([(key(each), name, each) for each in page.entries] for name, page in pages.items())
    last: Any = None
    is_full = any(page.next_cursor and not page.entries for page in pages.values())
    for place, name, entry in heapq.merge(*streams, key=lambda each: each[0], reverse=is_down):
        is_joined = merge.join is not None and bool(entries) and place == last
        if is_full and not is_joined:
            break
        if is_foreign(name, entry):
            taken[name] += 1
        elif is_joined:
            assert merge.join is not None
            entries[-1] = merge.join(entries[-1], entry)
            taken[name] += 1
        elif len(entries) == limit:
            break
        else:
            entries.append(entry)
            last = place
            taken[name] += 1
        if taken[name] == len(pages[name].entries) and pages[name].next_cursor:
            is_full = True
    return entries, taken


async def cursors_after(
    pages: Mapping[str, Page],
    taken: Mapping[str, int],
    order: Order,
    cursors: Mapping[str, str | None],
    read: Callable[[str, int], Awaitable[Page]],
) -> Cursors:
    """
    The cursors of those databases that have more.

    ``taken``: how many entries of each page are listed now. ``cursors``: those of the pages.
    ``read``: reads a page of another size from there.
    """
    following: Cursors = {}
    for name, page in pages.items():
        listed = page.entries[: taken[name]]
        if len(listed) == len(page.entries):
            if page.next_cursor is not None:
                following[name] = page.next_cursor
            continue
        following[name] = cursors[name]
        # Only a page that ends with these entries has the cursor of this place. If some of them
        # were removed meanwhile, it ends with entries that are not listed. Then it must be shorter.
        known = {_identity(each) for each in listed}
        size = len(listed)
        while size:
            again = await read(name, size)
            if late := _late(again.entries, known, listed[-1], order):
                size -= late
                continue
            following[name] = again.next_cursor
            if again.next_cursor is None:
                del following[name]
            break
    return following


def _late(entries: Sequence[Any], known: Collection[object], end: object, order: Order) -> int:
    """How many entries are not known, and not before the end either."""
    key, is_down = order
    return sum(
        _identity(each) not in known
        and not (key(each) > key(end) if is_down else key(each) < key(end))
        for each in entries
    )


def _identity(entry: object) -> object:
    id_ = getattr(entry, "id", None)
    return id_ or tuple(getattr(entry, name, None) for name in _NAMES)
