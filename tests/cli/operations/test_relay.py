"""`queen relay`: messages enqueued in an application's database arrive once and in order."""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import asyncpg
import pytest

from queen import Queen, outbox
from queen.cli.relay.pump import Relaying
from queen.store.connection.database import Database
from queen.store.connection.options import Connecting
from queen.store.relay import Relay, init
from tests.cli.shell import Shell
from tests.client.faults import Faulty
from tests.support.postgres import Server as PostgresServer
from tests.support.server import Server

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]


@pytest.fixture
async def shop(postgres: PostgresServer) -> str:
    """An application's database with an outbox, and no other part of Queen."""
    dsn = await asyncio.to_thread(postgres.create_database, f"shop_{uuid4().hex}")
    await init(dsn)
    return dsn


@pytest.fixture
async def application(shop: str) -> "AsyncIterator[Connection]":
    connection = await asyncpg.connect(shop)
    yield connection
    await connection.close()


@pytest.fixture
async def queen(server: Server) -> AsyncIterator[Queen]:
    async with Queen(server.base_url, retry_attempts=1) as queen:
        yield queen


@pytest.fixture
async def relaying(shop: str, queen: Queen) -> AsyncIterator[Relaying]:
    database = await Database.open(shop, Connecting(connections=2))
    yield Relaying(Relay(database), queen)
    await database.close()


async def enqueue(connection: "Connection", *values: int | str, queue: str = "orders") -> None:
    async with connection.transaction():
        for each in values:
            await connection.execute(
                "select queen.enqueue($1, to_json($2::text))", queue, str(each)
            )


async def drained(queen: Queen, queue: str = "orders") -> list[Any]:
    found: list[Any] = []
    while messages := await queen.queue(queue).batch(1000).auto_ack(True).pop():
        found += [each.data for each in messages]
    return found


async def left(connection: "Connection") -> list[str | None]:
    return [row["error"] for row in await connection.fetch("select error from queen.outbox")]


async def test_only_committed_messages_are_pushed(
    shell: Shell, shop: str, application: "Connection", queen: Queen
) -> None:
    await enqueue(application, 1, 2, 3)
    transaction = application.transaction()
    await transaction.start()
    await application.execute("select queen.enqueue('orders', '\"never\"')")
    await transaction.rollback()

    ended = await shell.run("relay", "--dsn", shop, "--once")

    assert (ended.code, ended.err) == (0, "3 messages were pushed\n")
    assert await drained(queen) == ["1", "2", "3"]
    assert await left(application) == []
    assert (await shell.run("relay", "--once", QUEEN_RELAY_DSN=shop)).err.startswith("0 messages")


async def test_the_command_creates_only_an_outbox(shell: Shell, postgres: PostgresServer) -> None:
    dsn = await asyncio.to_thread(postgres.create_database, f"shop_{uuid4().hex}")
    missing = await shell.run("relay", "--dsn", dsn, "--once")
    assert missing.code == 1
    assert "queen relay --init" in missing.err

    for _ in range(2):
        made = await shell.run("relay", "--dsn", dsn, "--init")
        assert made.code == 0, made

    connection = await asyncpg.connect(dsn)
    tables = await connection.fetch(
        "select relname from pg_class where relnamespace = 'queen'::regnamespace and relkind = 'r'"
    )
    assert {row["relname"] for row in tables} == {"outbox", "appender", "relay"}
    async with connection.transaction():
        await outbox.push(connection, "orders", [{"data": {"n": 1}}], partition="p")
    assert await left(connection) == [None]
    await connection.close()


async def test_a_queen_database_needs_no_relay(shell: Shell, dsn: str) -> None:
    for option in ("--init", "--once"):
        ended = await shell.run("relay", "--dsn", dsn, option)
        assert ended.code == 1
        assert "which move the outbox" in ended.err
    assert (await shell.run("relay")).code == 2


async def test_a_running_relay_pushes_soon_and_stops_on_a_signal(
    shell: Shell, shop: str, application: "Connection", queen: Queen
) -> None:
    async with shell.started("relay", "--dsn", shop) as process:
        for number in range(3):
            await enqueue(application, number)
            (message,) = await queen.queue("orders").wait(True).timeout_millis(20_000).pop()
            assert message.data == str(number)
            await message.ack()
        async with asyncio.timeout(20):
            while await left(application):  # noqa: ASYNC110 - the relay changes it
                await asyncio.sleep(0.02)
        process.terminate()
        _, said = await process.communicate()
    assert process.returncode == 0
    assert said.decode().endswith("3 messages were pushed\n")


async def test_a_batch_whose_response_was_lost_is_stored_once(
    application: "Connection", queen: Queen, relaying: Relaying
) -> None:
    await enqueue(application, *range(10))
    queen.transport = faulty = Faulty(queen.transport)
    faulty.lose_answers = 1

    assert 0 < await relaying.run() < 5
    assert len(await left(application)) == 10
    await enqueue(application, "later")
    while await relaying.step():
        pass

    assert await drained(queen) == [*map(str, range(10)), "later"]
    assert await left(application) == []


async def test_a_stored_batch_is_not_rejected_afterwards(
    application: "Connection", queen: Queen, relaying: Relaying
) -> None:
    """The queue's options changed between the batch and its repeat."""
    await enqueue(application, "a", "b")
    transport = queen.transport
    queen.transport = faulty = Faulty(transport)
    faulty.lose_answers = 1
    await relaying.run()
    queen.transport = transport
    await queen.queue("orders").config({"schema": {"type": "integer"}}).create()

    while await relaying.step():
        pass

    assert await left(application) == []
    assert await drained(queen) == ["a", "b"]


async def test_a_rejected_message_stays_with_its_reason_and_does_not_block_others(
    application: "Connection", queen: Queen, relaying: Relaying
) -> None:
    await queen.queue("strict").config({"schema": {"type": "integer"}}).create()
    await enqueue(application, 1, 2)
    await enqueue(application, "not a number", queue="strict")
    await application.execute("insert into queen.outbox (item, payload) values ('{\"q\": 1}', '1')")
    await enqueue(application, 3)

    while await relaying.step():
        pass

    assert await drained(queen) == ["1", "2", "3"]
    reasons = await left(application)
    assert len(reasons) == 2
    assert all(reasons)


async def test_while_the_server_is_unavailable_all_messages_stay(
    server: Server, application: "Connection", queen: Queen, relaying: Relaying
) -> None:
    server.kill()
    await enqueue(application, 1)
    for _ in range(2):
        assert 0 < await relaying.run() < 5
    assert await left(application) == [None]

    await server.start()
    await relaying.run()

    assert await drained(queen) == ["1"]


async def test_two_relays_store_each_message_once(
    shop: str, application: "Connection", queen: Queen, relaying: Relaying
) -> None:
    database = await Database.open(shop, Connecting(connections=2))
    other = Relaying(Relay(database), queen)

    async def steps(each: Relaying) -> None:
        while await each.step():
            pass

    for start in range(0, 100, 10):
        await enqueue(application, *range(start, start + 10))
        # Both act as the only relay.
        await asyncio.gather(steps(relaying), steps(other))
    await database.close()

    assert await drained(queen) == [*map(str, range(100))]


async def test_messages_of_a_long_transaction_are_not_skipped(
    shop: str, application: "Connection", queen: Queen, relaying: Relaying
) -> None:
    slow = await asyncpg.connect(shop)
    transaction = slow.transaction()
    await transaction.start()
    await slow.execute("select queen.enqueue('orders', '\"first\"')")
    await enqueue(application, "second")
    while await relaying.step():
        pass
    await transaction.commit()
    await slow.close()
    while await relaying.step():
        pass

    assert await drained(queen) == ["second", "first"]
