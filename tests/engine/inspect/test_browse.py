"""A slow search returns early with a cursor, and the next request continues there."""

from queen.engine.engine import Engine
from queen.engine.inspect import browse
from queen.store.connection.database import SPENT
from tests.engine.helpers import push


async def _search(engine: Engine, start: tuple[int, ...]) -> browse.Page:
    queue_id = (await engine.queues.one("orders"))["id"]
    return await browse.browse(
        engine.store,
        engine.sealer,
        browse.Filter(queue_id=queue_id, contains="first"),
        start=browse.Cursor(*start),
        limit=10,
        max_bytes=1_000_000,
    )


async def test_a_search_of_a_slow_database_ends_early_and_continues(engine: Engine) -> None:
    await push(engine, "orders", "first", *range(999))
    assert (await _search(engine, browse.FROM_THE_TOP)).scanned == 1_000

    token = SPENT.set([0.2])
    try:
        page = await _search(engine, browse.FROM_THE_TOP)
        assert (page.scanned, page.found) == (500, [])
        assert page.next is not None
        rest = await _search(engine, page.next)
    finally:
        SPENT.reset(token)
    assert (rest.scanned, len(rest.found)) == (500, 1)
