"""Changed keys since a snapshot are all found, even if their transactions commit late."""

from datetime import timedelta

import asyncpg

from queen.server.auth.api_keys import id_of
from queen.store.store import Store
from tests.support.callers import make_key
from tests.support.clock import Clock


async def changed(store: Store, since: int | None, limit: int = 100) -> tuple[int, dict[str, bool]]:
    snapshot, rows = await store.keys.changed(since, limit=limit)
    return snapshot, {row["id"]: row["is_valid"] for row in rows}


async def test_all_valid_keys_come_first_and_then_only_changes(dsn: str, store: Store) -> None:
    ids = [id_of(await make_key(dsn)) or "" for _ in range(3)]
    await store.keys.revoke(ids[0])

    since, first = await changed(store, None)
    assert first == {ids[1]: True, ids[2]: True}
    since, nothing = await changed(store, since)
    assert nothing == {}

    await store.keys.revoke(ids[1])
    await store.keys.rotate(ids[2], bytes(32), grace_seconds=0)
    new = id_of(await make_key(dsn)) or ""
    since, news = await changed(store, since)
    assert news == {ids[1]: False, ids[2]: True, new: True}
    assert (await changed(store, since))[1] == {}


async def test_a_change_that_commits_late_is_not_missed(dsn: str, store: Store) -> None:
    id_ = id_of(await make_key(dsn)) or ""
    connection = await asyncpg.connect(dsn)
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("update queen.keys set revoked_at = queen.now() where id = $1", id_)
    since, _ = await changed(store, None)
    await make_key(dsn)  # A later transaction, which commits earlier.
    since, _ = await changed(store, since)
    await transaction.commit()
    await connection.close()

    assert (await changed(store, since))[1][id_] is False


async def test_only_the_newest_keys_are_returned_if_there_are_more(
    dsn: str, store: Store, clock: Clock
) -> None:
    ids: list[str | None] = []
    for _ in range(4):
        ids.append(id_of(await make_key(dsn)))
        await clock.advance(seconds=timedelta(minutes=1).total_seconds())
    assert [*(await changed(store, None, limit=2))[1]] == [ids[3], ids[2]]
