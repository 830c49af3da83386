"""Encrypted payloads of a spread queue stay readable in all databases."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from queen.cluster.cluster import Cluster
from queen.engine.engine import Engine
from queen.wire.messages import PopRequest
from tests.cluster.moves import Members, run
from tests.cluster.places import named, slot_of
from tests.engine.encryption.helpers import KEYED
from tests.engine.helpers import item, values

MOVED, STAYS = named("main", 2)


@pytest.fixture
async def keyed(databases: dict[str, str]) -> AsyncIterator[Cluster]:
    async with AsyncExitStack() as stack:
        engines = {
            name: await stack.enter_async_context(await Engine.open(dsn, settings=KEYED))
            for name, dsn in databases.items()
        }
        cluster = Cluster(engines)
        await cluster.start()
        stack.push_async_callback(cluster.close)
        engine = await cluster.of_new_queue("orders", is_spread=True)
        await engine.queues.configure("orders", {"placement": "spread", "encrypted": True})
        yield cluster


async def test_data_keys_are_copied_and_stay(keyed: Cluster, databases: dict[str, str]) -> None:
    await keyed.push(
        [item("orders", [name, n], partition=name) for name in (MOVED, STAYS) for n in (0, 1)]
    )
    async with Members.connected(databases) as members:
        await run(members.move(slot_of(MOVED), "main", "two"))
        await keyed.push([item("orders", [MOVED, 2], partition=MOVED)])
        await run(members.move(slot_of(MOVED), "two", "three"))
        count = "select count(*) from queen.data_keys"
        assert [await members.value(name, count) for name in databases] == [1, 1, 1]
    found: list[object] = []
    for name in (MOVED, STAYS):
        request = PopRequest(queue="orders", partition=name, batch=10)
        found += values((await keyed.pop(request)).deliveries)

    assert found == [[MOVED, 0], [MOVED, 1], [MOVED, 2], [STAYS, 0], [STAYS, 1]]
