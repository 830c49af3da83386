"""Typed payloads: supported types, and errors that name the invalid field."""

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
async def test_an_undecodable_payload_is_dead_lettered_with_the_path_of_the_error(
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


async def test_a_typed_pop_raises_when_the_data_is_accessed(shared: Queen, name: str) -> None:
    await shared.queue(name).push([{"data": "no struct"}])
    (message,) = await shared.queue(name, type=Struct).pop()

    with pytest.raises(errors.UndecodablePayload, match=r"`\$`"):
        _ = message.data


async def test_a_payload_that_is_not_json_is_rejected_before_it_is_sent(
    shared: Queen, name: str
) -> None:
    with pytest.raises(errors.InvalidItem, match="object"):
        await shared.queue(name).push([{"data": object()}])


async def test_layout_runs_returns_the_same_messages_as_the_default_layout(
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


async def test_headers_can_be_changed(shared: Queen, name: str) -> None:
    await shared.queue(name).push([{"data": 1, "headers": {"a": "b"}}, {"data": 2}])
    for message, came in zip(
        await shared.queue(name).batch(2).pop(), ({"a": "b"}, {}), strict=True
    ):
        message.headers["c"] = "d"
        assert message.headers == {**came, "c": "d"}
