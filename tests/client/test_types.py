"""Typed payloads: what they may be, and where a fault is."""

from dataclasses import dataclass
from typing import TypedDict

import msgspec
import pydantic
import pytest

from queen import Message, Queen, errors
from queen.wire import messages as wire


class Struct(msgspec.Struct):
    id: int
    tags: list[str] = []


class Model(pydantic.BaseModel):
    id: int
    tags: list[str] = []


@dataclass
class Data:
    id: int
    tags: list[str]


class Typed(TypedDict):
    id: int
    tags: list[str]


@pytest.mark.parametrize(
    "value",
    [Struct(id=1, tags=["a"]), Model(id=1, tags=["a"]), Data(id=1, tags=["a"])],
    ids=lambda value: type(value).__name__,
)
async def test_objects_are_payloads(shared: Queen, name: str, value: Struct | Model | Data) -> None:
    queue = shared.queue(name, type=type(value))
    await queue.push([{"data": value}])

    (message,) = await queue.pop()

    assert message.data == value
    assert message.raw == b'{"id":1,"tags":["a"]}'


async def test_typed_dictionaries_are_payloads(shared: Queen, name: str) -> None:
    queue = shared.queue(name, type=Typed)
    await queue.push([{"data": Typed(id=1, tags=["a"])}])

    (message,) = await queue.pop()

    assert message.data["tags"] == ["a"]


@pytest.mark.parametrize("type_", [Struct, Model, Data, Typed])
async def test_what_does_not_decode_is_a_dead_letter_with_the_place_of_the_fault(
    shared: Queen, name: str, type_: type[object]
) -> None:
    await shared.queue(name).push([{"data": {"id": 1, "tags": ["a", 7]}}])
    handled: list[object] = []

    async def handler(message: Message[object]) -> None:
        handled.append(message)

    await shared.queue(name, type=type_).idle_millis(300).consume(handler)

    (letter,) = (await shared.queue(name).dlq().get())["messages"]
    assert "`$.tags[1]`" in letter["errorMessage"]
    assert handled == []


async def test_a_pop_of_a_typed_queue_raises_where_it_is_looked_at(
    shared: Queen, name: str
) -> None:
    await shared.queue(name).push([{"data": "no struct"}])
    (message,) = await shared.queue(name, type=Struct).pop()

    with pytest.raises(errors.UndecodablePayload, match=r"`\$`"):
        _ = message.data


async def test_what_is_no_json_is_refused_before_it_is_sent(shared: Queen, name: str) -> None:
    with pytest.raises(errors.InvalidItem, match="object"):
        await shared.queue(name).push([{"data": object()}])


async def test_a_message_of_a_run_is_the_message_that_a_server_shows(
    shared: Queen, name: str
) -> None:
    items: list[dict[str, object]] = [{"data": {"n": n}} for n in range(300)]
    items[7] |= {"transactionId": 'its "own"', "headers": {"a": "b"}, "traceId": "t/7"}
    await shared.queue(name).partition("p/1").push(items)
    ours = await shared.queue(name).group("ours").batch(300).pop()
    path = f"/api/v1/pop/queue/{name}?consumerGroup=theirs&batch=300"
    reply = await shared.transport.exchange("GET", path)
    theirs = msgspec.json.decode(reply.body, type=wire.PopAnswer).messages
    assert theirs is not msgspec.UNSET
    assert len(ours) == len(theirs) == 300
    for message, said in zip(ours, theirs, strict=True):
        own = {"lease_id", "lease_expires_at", "consumer_group", "options", "data"}
        for field in {each.name for each in msgspec.structs.fields(wire.Message)} - own:
            assert getattr(message, field) == getattr(said, field), field
        assert message.raw == bytes(said.data)
        assert message.lease_seconds == said.options["leaseTime"]
        assert message.consumer_group == "ours"


async def test_headers_keep_what_is_set(shared: Queen, name: str) -> None:
    await shared.queue(name).push([{"data": 1, "headers": {"a": "b"}}, {"data": 2}])
    for message, came in zip(
        await shared.queue(name).batch(2).pop(), ({"a": "b"}, {}), strict=True
    ):
        message.headers["c"] = "d"
        assert message.headers == {**came, "c": "d"}
