"""The client without ``await``."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from queen import QueenError
from queen.client.sync import SyncQueen
from tests.server.server import Server


@pytest.fixture
def queue_name() -> str:
    return "tasks"


async def in_thread(server: Server, work: Callable[[Any], Any]) -> Any:  # noqa: ANN401
    def run() -> Any:  # noqa: ANN401
        with SyncQueen(server.base_url) as queen:
            return work(queen)

    return await asyncio.to_thread(run)


async def test_push_pop_and_ack(server: Server, queue_name: str) -> None:
    def work(queen: Any) -> list[Any]:  # noqa: ANN401
        queue = queen.queue(queue_name)
        queue.partition("p").push([{"data": n} for n in range(3)])
        messages = queue.batch(3).pop()
        queen.ack(messages)
        return [*(message.data for message in messages), *queue.pop()]

    assert await in_thread(server, work) == [0, 1, 2]


async def test_a_plain_function_consumes_in_a_thread(server: Server, queue_name: str) -> None:
    def work(queen: Any) -> list[Any]:  # noqa: ANN401
        seen: list[Any] = []
        queen.queue(queue_name).push([{"data": n} for n in range(3)])

        def handler(message: Any) -> None:  # noqa: ANN401
            seen.append(message["data"])

        queen.queue(queue_name).limit(3).consume(handler)
        return seen

    assert await in_thread(server, work) == [0, 1, 2]


async def test_errors_are_raised_where_the_call_was_made(server: Server) -> None:
    def work(queen: Any) -> None:  # noqa: ANN401
        with pytest.raises(QueenError, match="no queue"):
            queen.queue("nope").pop()

    await in_thread(server, work)
