"""A dead letter whose message a seek gave back is one message still: it is out once at a time."""

from queen.engine.engine import Engine
from queen.wire.messages import Acknowledgment, PopRequest, PushItem


async def bury(engine: Engine) -> int:
    """An unordered queue whose only message gave up; answers the id of the dead letter."""
    await engine.configure("q", {"ordered": False})
    await engine.push([PushItem(queue="q", payload=b"1")])
    (delivery,) = await engine.pop(PopRequest(queue="q"))
    (message,) = delivery.messages()
    await engine.acknowledge(
        [Acknowledgment(id=message.id, lease_id=delivery.lease_id, status="dlq")]
    )
    (letter,) = await engine.dead_letters("q")
    return letter["id"]


async def test_a_message_that_is_out_since_a_seek_is_not_given_twice_by_a_redrive(
    engine: Engine,
) -> None:
    letter_id = await bury(engine)
    await engine.seek("q", None, to_start=True)
    (first,) = await engine.pop(PopRequest(queue="q"))
    assert first.offsets == [0]

    await engine.redrive([letter_id])

    assert await engine.pop(PopRequest(queue="q")) == []


async def test_a_message_that_a_seek_will_give_again_is_not_given_twice_by_a_redrive(
    engine: Engine,
) -> None:
    letter_id = await bury(engine)
    await engine.seek("q", None, to_start=True)

    await engine.redrive([letter_id])

    given = await engine.pop(PopRequest(queue="q", batch=4, partitions=4))
    assert [delivery.offsets for delivery in given] == [[0]]
