"""Forms of the original clients: mappings for items and messages, and the environment."""

import json
from typing import Any

import pytest

from queen import LeaseLost, Queen, SyncQueen, errors
from queen.client.config import Config
from tests.support.server import Server


async def test_a_push_accepts_items_as_mappings(shared: Queen, name: str) -> None:
    item = {"queue": name, "partition": "urgent", "payload": {"to": "user@example.com"}}
    await shared.push({"items": [item]})
    await shared.push(item)
    await shared.push([{"queue": name, "data": 3}, *shared.queue(name).items([{"data": 4}])])

    found = [message for _ in range(2) for message in await shared.queue(name).batch(10).pop()]
    assert sorted((m.partition, json.dumps(m.data)) for m in found) == [
        ("Default", "3"),
        ("Default", "4"),
        ("urgent", '{"to": "user@example.com"}'),
        ("urgent", '{"to": "user@example.com"}'),
    ]


@pytest.mark.parametrize("items", [[{"payload": 1}], ["orders"], {"items": [{"data": 1}]}])
async def test_an_item_without_a_queue_is_rejected(items: Any) -> None:  # noqa: ANN401
    with pytest.raises(errors.InvalidItem, match="needs the queue of each item"):
        await Queen("http://localhost:1").push(items)


async def test_a_message_stored_as_json_can_be_acked(shared: Queen, name: str) -> None:
    queue = shared.queue(name)
    await queue.push([{"data": 1, "transactionId": "tx-1"}, {"data": 2}])
    first, second = await queue.batch(2).pop()
    stored = json.loads(json.dumps([dict(first), dict(second)]))

    await shared.renew(stored[0])
    await shared.ack(stored[0], False, {"error": "try again", "delay": 0})
    with pytest.raises(LeaseLost):
        await shared.ack([stored[1]], True)

    (again,) = await queue.batch(2).pop()
    assert again.attempt == 2
    with pytest.raises(LeaseLost):
        await shared.ack(stored[0])  # Its lease has ended, so this is another delivery.
    await shared.transaction().ack(dict(again)).commit()
    (last,) = await queue.batch(2).pop()
    await shared.ack([dict(last)])
    assert await queue.pop() == []


@pytest.mark.parametrize(
    "shape",
    ["transactionId", {"transactionId": "t-1"}, {"transactionId": "t-1", "partitionId": ""}],
)
async def test_a_message_is_acked_by_its_transaction_id(
    shared: Queen, name: str, shape: dict[str, str] | str
) -> None:
    queue = shared.queue(name)
    own = f"t-{name}"
    await queue.push([{"data": 1, "transactionId": own}])
    (message,) = await queue.pop()
    known = {"transactionId": own, "partitionId": message.partition_id}
    given = own if isinstance(shape, str) else {field: known[field] for field in shape}

    await shared.ack(given, "completed")
    with pytest.raises(LeaseLost):
        await message.ack()


@pytest.mark.parametrize("given", [{}, {"partitionId": "p"}, [None], 7])
async def test_an_ack_without_a_message_reference_is_rejected(given: Any) -> None:  # noqa: ANN401
    with pytest.raises((errors.BadRequest, TypeError), match=r"message|iterable"):
        await Queen("http://localhost:1").ack(given)


async def test_a_message_as_a_dict_is_json(shared: Queen, name: str) -> None:
    await shared.queue(name).push([{"data": {"n": 1}, "headers": {"a": "b"}}])
    (message,) = await shared.queue(name).pop()

    found = json.loads(json.dumps(dict(message)))

    assert found == dict(message)
    assert found["data"] == {"n": 1}
    assert found["createdAt"].endswith("Z")
    assert found["createdAt"][:19] == message.created_at.isoformat()[:19]
    assert not {"trace", "payload"} & found.keys()
    assert message["payload"] == {"n": 1}
    assert callable(message["trace"])


def test_a_client_reads_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, text in {
        "QUEEN_BASE_URL": "http://one:6632, http://two:6632",
        "QUEEN_TOKEN": "secret",
        "CLIENT_RETRY_ATTEMPTS": "7",
        "CLIENT_RETRY_DELAY": "250",
        "CLIENT_RETRY_BACKOFF": "3",
        "CLIENT_POOL_SIZE": "4",
        "CLIENT_REQUEST_TIMEOUT": "5000",
        "WORKER_CONCURRENCY": "9",
    }.items():
        monkeypatch.setenv(variable, text)

    config = Queen().config
    assert config.urls == ("http://one:6632", "http://two:6632")
    assert (config.bearer_token, config.retry_attempts, config.retry_delay_millis) == (
        "secret",
        7,
        250,
    )
    assert (config.retry_backoff, config.pool_size, config.timeout_millis) == (3.0, 4, 5000)
    assert config.concurrency == 1
    assert SyncQueen().config == config
    assert Queen.from_env().config.concurrency == 9


def test_arguments_override_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEEN_BASE_URL", "http://one:6632")
    monkeypatch.setenv("CLIENT_RETRY_ATTEMPTS", "7")
    config = Queen({"urls": ["http://two:6632"], "retry_attempts": 1}).config
    assert (config.urls, config.retry_attempts) == (("http://two:6632",), 1)


def test_a_token_from_the_environment_is_sent_to_no_other_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("QUEEN_BASE_URL", "http://one:6632")
    monkeypatch.setenv("QUEEN_TOKEN", "secret")
    assert Queen().config.bearer_token == "secret"
    assert Queen("http://two:6632").config.bearer_token is None


def test_a_malformed_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLIENT_POOL_SIZE", "many")
    with pytest.raises(errors.BadSettings, match="CLIENT_POOL_SIZE='many'"):
        Queen()
    monkeypatch.setenv("CLIENT_POOL_SIZE", "")
    assert Queen().config == Config()


async def test_a_message_is_retried_and_dead_lettered_by_its_transaction_id(
    queen: Queen, server: Server
) -> None:
    orders = queen.queue("orders")
    await orders.config({"retryDelay": "1h"}).create()
    await orders.push([{"data": 1, "transactionId": "order-1"}])
    (message,) = await orders.pop()
    await message.nack("broken")
    assert await orders.pop() == []

    changed = await queen.admin.retry("order-1")
    assert (changed.id, changed.transaction_id) == (message.id, "order-1")
    (again,) = await orders.pop()
    assert again.attempt == 2

    await queen.admin.give_up("order-1", error="enough")
    assert (await orders.dlq().get())["total"] == 1
    assert (await server.get("/messages/order-1")).status == 200


async def test_a_transaction_id_of_two_messages_is_ambiguous(queen: Queen) -> None:
    for partition in ("a", "b"):
        await queen.queue("orders").partition(partition).push([{"data": 1, "transactionId": "x"}])
    with pytest.raises(errors.AmbiguousMessage, match="partition"):
        await queen.admin.retry("x")
    with pytest.raises(errors.MessageNotFound):
        await queen.admin.retry("y")
