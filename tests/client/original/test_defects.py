"""Defects of earlier clients, one test each."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncGenerator
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from queen import LeaseLost, Message, PushError, Queen, QueenError, errors
from tests.client.faults import Faulty
from tests.support.clock import Clock
from tests.support.server import Server


@contextlib.asynccontextmanager
async def answering(url: str, *, lost: int) -> AsyncGenerator[str]:
    """A client that loses this many responses of a server."""
    left = [lost]

    async def handle(request: web.Request) -> web.Response:
        async with (
            aiohttp.ClientSession() as session,
            session.request(
                request.method,
                url + request.raw_path,
                data=await request.read(),
                headers={"Content-Type": "application/json"},
            ) as reply,
        ):
            body = await reply.read()
        if left[0]:
            left[0] -= 1
            assert request.transport is not None
            request.transport.abort()
        return web.Response(status=reply.status, body=body)

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        host, port = runner.addresses[0]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


async def test_a_pop_that_fails_raises(process: Server) -> None:
    async with Queen("http://127.0.0.1:9", retry_attempts=1) as queen:
        with pytest.raises(errors.ServerUnreachable):
            await queen.queue("q").pop()
    async with Queen(process.base_url) as queen:
        with pytest.raises(errors.QueueNotFound):
            await queen.queue("nobody-made-this").pop()


async def test_a_pop_does_not_wait_by_default(shared: Queen, name: str) -> None:
    await shared.queue(name).create()
    async with asyncio.timeout(5):
        assert await shared.queue(name).pop() == []


async def test_auto_ack_of_a_pop_is_honoured(shared: Queen, name: str) -> None:
    await shared.queue(name).push([{"data": 1}, {"data": 2}])

    (first,) = await shared.queue(name).auto_ack(True).pop()
    (second,) = await shared.queue(name).pop()  # The first one is settled.

    assert (first.data, first.lease_id, second.data) == (1, None, 2)


async def test_a_batch_ack_returns_a_result_per_message(queen: Queen, clock: Clock) -> None:
    await queen.queue("q").config({"leaseTime": 60}).create()
    await queen.queue("q").partition("a").push({"data": "lost"})
    (lost,) = await queen.queue("q").pop()
    await clock.advance(seconds=61)
    (again,) = await queen.queue("q").pop()
    await queen.queue("q").partition("b").push({"data": "held"})
    (held,) = await queen.queue("q").pop()

    with pytest.raises(LeaseLost) as caught:
        await queen.ack([lost, held])

    assert [each.success for each in caught.value.members["results"]] == [False, True]
    assert (lost.is_settled, held.is_settled) == (False, True)
    await queen.ack(again)


async def test_an_unknown_status_is_rejected(shared: Queen, name: str) -> None:
    await shared.queue(name).push({"data": 1})
    (message,) = await shared.queue(name).pop()

    with pytest.raises(errors.InvalidStatus):
        await shared.ack(message, "compelted")

    assert not message.is_settled


@pytest.mark.parametrize(
    "error", [TimeoutError("network timeout"), errors.ServerUnreachable("mine"), OSError("timeout")]
)
async def test_an_error_of_the_handler_is_never_taken_for_a_transport_error(
    shared: Queen, name: str, error: Exception
) -> None:
    await shared.queue(name).config({"retryLimit": 0}).create()
    await shared.queue(name).push({"data": 1})

    async def handler(message: Message[int]) -> None:
        raise error

    await shared.queue(name).limit(1).consume(handler)
    letters = await shared.queue(name).dlq().get()

    assert letters["total"] == 1
    assert str(error) in letters["messages"][0]["errorMessage"]


async def test_a_transaction_with_a_lost_lease_is_rejected(queen: Queen, clock: Clock) -> None:
    await queen.queue("in").config({"leaseTime": 60, "retryDelay": 0}).create()
    await queen.queue("in").push({"data": 1})
    (message,) = await queen.queue("in").pop()
    await clock.advance(seconds=61)
    (again,) = await queen.queue("in").pop()

    with pytest.raises(LeaseLost):
        await queen.transaction().ack(message).queue("out").push({"data": 2}).commit()

    assert again.attempt == 2
    assert await queen.queue("out").pop() == []


@pytest.mark.parametrize("odd", ["Default", "a/b", "50%", "?&#", "späti", "a b", "..."])
async def test_any_name_works_everywhere(shared: Queen, name: str, odd: str) -> None:
    queue = shared.queue(f"{name}/{odd}").group(f"g/{odd}").partition(odd)
    await queue.push({"data": odd})

    (message,) = await queue.pop()

    assert (message.queue, message.partition, message.data) == (f"{name}/{odd}", odd, odd)
    await message.ack()
    assert (await shared.admin.queue(f"{name}/{odd}")).name == f"{name}/{odd}"
    await queue.delete()


async def test_each_item_that_is_not_stored_is_listed(shared: Queen, name: str) -> None:
    await shared.queue(name).config({"maxPayloadBytes": 100}).create()

    with pytest.raises(PushError) as caught:
        await shared.queue(name).push([{"data": 1}, {"data": "x" * 200}])

    assert [each.code for each in caught.value.failed] == ["not_stored", "payload_too_large"]
    assert caught.value.stored == []
    assert await shared.queue(name).pop() == []


async def test_every_message_has_a_trace(shared: Queen, name: str) -> None:
    await shared.queue(name).push({"data": 1})
    (message,) = await shared.queue(name).pop()

    await message.trace({"traceName": name, "data": {"text": "seen"}})

    events = [event async for event in shared.admin.traces(name)]
    assert [bytes(event.data) for event in events] == [b'{"text":"seen"}']


async def test_creating_a_client_changes_no_signal_handler() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    Queen()
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


async def test_a_push_whose_response_is_lost_is_stored_once(process: Server, name: str) -> None:
    async with Queen(process.base_url) as queen:
        queen.transport = faulty = Faulty(queen.transport)
        faulty.lose_answers = 1
        with pytest.raises(errors.OutcomeUnknown):
            await queen.queue(name).push({"data": 1})
        await queen.queue(name).push({"data": 2})
        messages = await queen.queue(name).batch(10).pop()
    assert [message.data for message in messages] == [1, 2]


@pytest.mark.parametrize("status", [True, False, "retry", "dlq"])
@pytest.mark.parametrize("is_batch", [True, False])
async def test_a_repeated_ack_after_a_lost_response_succeeds(
    shared: Queen, name: str, status: "bool | str", is_batch: bool
) -> None:
    async with answering(shared.config.urls[0], lost=1) as url, Queen(url) as queen:
        await shared.queue(name).push({"data": 1})
        (message,) = await shared.queue(name).pop()
        await queen.ack([message] if is_batch else message, status)

    assert message.is_settled


async def test_a_deletion_whose_response_is_lost_succeeds(shared: Queen, name: str) -> None:
    await shared.queue(name).create()
    async with answering(shared.config.urls[0], lost=1) as url, Queen(url) as queen:
        await queen.queue(name).delete()
    with pytest.raises(errors.QueueNotFound):
        await shared.queue(name).delete()


async def test_an_item_that_is_not_a_mapping_is_rejected(shared: Queen) -> None:
    with pytest.raises(errors.InvalidItem, match="mapping"):
        await shared.queue("q").push(["x"])  # pyright: ignore[reportArgumentType, reportCallIssue]


async def test_a_partition_needs_a_name(shared: Queen) -> None:
    with pytest.raises(errors.InvalidName):
        shared.queue("q").partition("")


async def test_a_misspelt_name_gets_a_suggestion(shared: Queen) -> None:
    with pytest.raises(errors.InvalidOption, match="did you mean 'leaseTime'"):
        await shared.queue("q").config({"leaseTme": 5}).create()
    with pytest.raises(errors.InvalidItem, match="did you mean 'transactionId'"):
        await shared.queue("q").push({"data": 1, "transactionID": "x"})
    with pytest.raises(errors.BadSettings, match="did you mean timeout_millis"):
        Queen(timeout_milis=5)


async def test_a_closed_client_can_be_reopened(process: Server, name: str) -> None:
    queen = Queen(process.base_url)
    async with queen:
        await queen.queue(name).push({"data": 1})
    with pytest.raises(QueenError, match="closed"):
        await queen.queue(name).pop()
    async with queen:
        assert len(await queen.queue(name).pop()) == 1


def test_the_environment_configures_a_client(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {
        "QUEEN_BASE_URL": "http://a:1, http://b:2",
        "QUEEN_TOKEN": "qk_1",
        "CLIENT_POOL_SIZE": "10",
        "CLIENT_REQUEST_TIMEOUT": "5000",
        "CLIENT_RETRY_ATTEMPTS": "7",
        "CLIENT_RETRY_BACKOFF": "1.5",
        "CLIENT_RETRY_DELAY": "20",
        "WORKER_CONCURRENCY": "4",
    }
    for variable, value in given.items():
        monkeypatch.setenv(variable, value)

    config = Queen.from_env().config

    assert config.urls == ("http://a:1", "http://b:2")
    assert (config.bearer_token, config.pool_size, config.timeout_millis) == ("qk_1", 10, 5000)
    assert (config.retry_attempts, config.retry_backoff, config.retry_delay_millis) == (7, 1.5, 20)
    assert config.concurrency == 4
