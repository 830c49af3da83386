"""A pop that is cancelled."""

import asyncio
import gc
from typing import Any

import pytest

from queen import Queen
from queen.client.consume.pop import Poller

NOBODY_LISTENS = "http://127.0.0.1:1"


async def test_the_error_of_a_pop_that_is_cancelled_as_it_fails_counts_as_read() -> None:
    unread: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unread.append(context))
    async with Queen(NOBODY_LISTENS, retry_attempts=1) as queen:
        earlier = asyncio.all_tasks()
        task = asyncio.create_task(
            Poller(queen, asyncio.Event()).pop(queen.queue("orders").pop_request)
        )
        await asyncio.sleep(0)
        (popping,) = (
            each
            for each in asyncio.all_tasks() - earlier
            if getattr(each.get_coro(), "__name__", "") == "pop_runs"
        )
        popping.add_done_callback(lambda _: task.cancel())

        with pytest.raises(asyncio.CancelledError):
            await task

        del popping
        gc.collect()
    assert unread == []
