"""Lists of several databases are merged page by page."""

from typing import NamedTuple

import pytest

from queen.server.databases.merges import by
from queen.server.databases.paging import Cursors, Page, cursors_after, first
from queen.server.http.call import Paged

BY_NAME = by("name")(None)
MERGE = Paged("entries", by("name"))


class Entry(NamedTuple):
    name: str


class Database:
    """A sorted list. Its cursor is the last name in a page."""

    def __init__(self, *names: str, scanned: int = 100) -> None:
        self.names = [*names]
        self._scanned = scanned

    async def read(self, cursor: str | None, size: int) -> Page:
        left = [each for each in self.names if cursor is None or each > cursor]
        found = left[: min(size, self._scanned)]
        more = len(left) > len(found)
        return Page([Entry(each) for each in found], found[-1] if more and found else None)


def _is_foreign(database: str, entry: object) -> bool:
    del database, entry
    return False


async def pages(
    limit: int, changes: dict[str, str] | None = None, **databases: Database
) -> list[str]:
    """All names, page by page. ``changes``: names that are removed after others were listed."""
    changes = changes or {}
    listed: list[str] = []
    cursors: Cursors = dict.fromkeys(databases)
    for _ in range(100):
        found = {name: await databases[name].read(at, limit) for name, at in cursors.items()}
        entries, taken = first(found, MERGE, BY_NAME, limit, _is_foreign)
        listed += [each.name for each in entries]
        removed = {changes[each.name] for each in entries if each.name in changes}
        for each in databases.values():
            each.names = [name for name in each.names if name not in removed]

        async def read(name: str, size: int) -> Page:
            return await databases[name].read(cursors[name], size)  # noqa: B023 - awaited here

        following = await cursors_after(found, taken, BY_NAME, cursors, read)
        if not following:
            return listed
        cursors = following
    raise AssertionError(listed)


async def test_entries_are_sorted_over_all_databases() -> None:
    found = await pages(2, main=Database("a", "d", "e"), two=Database("b", "c", "f"))

    assert found == ["a", "b", "c", "d", "e", "f"]


async def test_an_entry_after_a_removed_one_is_listed() -> None:
    """The page that has the cursor ends with a later entry then."""
    main, two = Database("a", "b", "e", "f"), Database("c", "d")
    assert await pages(3, {"c": "b"}, main=main, two=two) == ["a", "b", "c", "d", "e", "f"]

    main, two = Database("a", "b", "e", "f"), Database("c", "d")
    assert await pages(3, {"c": "a"}, main=main, two=two) == ["a", "b", "c", "d", "e", "f"]


async def test_a_short_page_ends_the_merged_page() -> None:
    """Later entries of the other database do not come before those that follow."""
    found = await pages(4, main=Database("a", "b", "c", "d", scanned=1), two=Database("e", "f"))

    assert found == ["a", "b", "c", "d", "e", "f"]


@pytest.mark.xfail(strict=True, reason="lists are merged by code point, not by the collation")
def test_databases_with_a_linguistic_collation_list_each_name_once() -> None:
    """Most PostgreSQL servers sort "a" before "B"."""
    merge = Paged("entries", by("name"), join=lambda one, _: one)
    page = Page([Entry("a"), Entry("B"), Entry("c")], None)

    entries, _ = first({"main": page, "two": page}, merge, BY_NAME, 10, _is_foreign)

    assert [each.name for each in entries] == ["a", "B", "c"]
