"""The heartbeat finds messages that a process which died has left, long before the slow polls."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import asyncpg
import pytest

from queen.cluster.cluster import Cluster
from queen.server.heartbeat import Heartbeat
from queen.settings import Settings
from queen.wire.messages import PopRequest
from tests.cluster.places import ONE, TWO
from tests.engine.helpers import item, until, values

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

_LEADER_DIES = """
insert into queen.appender (holder, until, is_awake)
values (1, queen.now() + interval '1 second', true)
on conflict (is_only) do update
set holder = excluded.holder, until = excluded.until, is_awake = excluded.is_awake
"""
"""Applications don't notify while a leader is awake, so its death loses notifications."""


@pytest.fixture
async def application(databases: dict[str, str], cluster: Cluster) -> "AsyncIterator[Connection]":
    """A connection to the first database, whose leader of the outbox has died."""
    notifications = cluster.first.signals.notifications
    assert notifications is not None

    async def is_listening() -> bool:
        return notifications.is_listening

    # After that, the outbox is searched once.
    await until(is_listening)
    connection = await asyncpg.connect(databases["main"])
    await connection.execute(_LEADER_DIES)
    yield connection
    await connection.close()


async def _adopt() -> None:
    """No operation to continue."""


async def _taken(cluster: Cluster, queue: str) -> list[object]:
    """Wait for two messages of a queue while heartbeats run."""
    heartbeat = Heartbeat(cluster.first, Settings(), adopt=_adopt)
    found: list[object] = []

    async def is_found() -> bool:
        await heartbeat.beat()
        request = PopRequest(queue=queue, auto_ack=True)
        found.extend(values((await cluster.pop(request)).deliveries))
        return len(found) == 2

    await until(is_found, seconds=20)
    return found


async def test_messages_of_a_dead_leader_are_moved(
    cluster: Cluster, application: "Connection"
) -> None:
    await cluster.push([item(ONE, 0)])
    await application.execute("select queen.enqueue($1, '1')", ONE)

    assert await _taken(cluster, ONE) == [0, 1]


async def test_messages_that_a_process_did_not_forward_are_forwarded(
    cluster: Cluster, application: "Connection"
) -> None:
    await cluster.push([item(TWO, 0)])
    await application.execute("select queen.enqueue($1, '1')", TWO)
    id_ = await application.fetchval("select id from queen.outbox")
    await cluster.first.store.forwards.add({id_: TWO})

    assert await _taken(cluster, TWO) == [0, 1]
