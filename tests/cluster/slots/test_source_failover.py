"""A move whose databases fail over to a standby that lacks their last transactions."""

from collections.abc import Iterator

import pytest

from queen.cluster.cluster import Cluster
from queen.engine.engine import Engine
from queen.store.cluster.joining import join
from tests.cluster.moves import Members, run
from tests.cluster.places import ONE
from tests.engine.helpers import drain, push
from tests.support.pair import Pair
from tests.support.postgres import Server

pytestmark = pytest.mark.slow


@pytest.fixture
def pair() -> Iterator[Pair]:
    with Pair() as pair:
        yield pair


async def test_a_source_that_lost_transactions_is_copied_from_the_start(
    pair: Pair, postgres: Server
) -> None:
    """Its new transactions have numbers that were copied before."""
    pair.primary.create_database("main")
    databases = {"main": pair.dsn("main"), "two": postgres.create_database("review_two")}
    try:
        await join(databases)
        await engine_pushes(databases, 1)
        async with Members.connected(databases) as members:
            slot = await members.slot(ONE)
            await members.move(slot, "main", "two").step()
        pair.standby.stop()
        pair.primary.execute("alter system set synchronous_standby_names = ''")
        pair.primary.execute("select pg_reload_conf()")
        for _ in range(30):
            pair.primary.execute("select pg_current_xact_id()")
        await engine_pushes(databases, 2)
        async with Members.connected(databases) as members:
            move = members.move(slot, "main", "two")
            await move.step()
            assert (await move.step()).copied
        pair.primary.kill()
        pair.standby.start()
        pair.promote()
        pair.primary.execute("alter system set synchronous_standby_names = ''")
        pair.primary.execute("select pg_reload_conf()")
        await engine_pushes(databases, 3, 4)

        async with Members.connected(databases) as members:
            await run(members.move(slot, "main", "two"))

        async with await Engine.open(databases["two"]) as two:
            assert await drain(two, ONE) == [1, 3, 4]
    finally:
        postgres.drop_database("review_two")


async def engine_pushes(databases: dict[str, str], *values: int) -> None:
    async with (
        await Engine.open(databases["main"]) as main,
        await Engine.open(databases["two"]) as two,
    ):
        cluster = Cluster({"main": main, "two": two})
        await cluster.start()
        await cluster.places.claim({ONE: ""})
        for value in values:
            assert (await push(main, ONE, value))[0].code is None
