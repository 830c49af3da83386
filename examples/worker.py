"""A worker process: handlers run until SIGTERM, and then finish without losing messages."""

import asyncio
import os
import signal

from queen import Message, Queen

queen = Queen.from_env()


@queen.queue("thumbnails").concurrency(4).handler
async def shrink(message: Message) -> None:
    print("shrinking", message.data)
    os.kill(os.getpid(), signal.SIGTERM)  # As in a deployment. The handler still finishes.


async def main() -> None:
    async with queen:
        await queen.queue("thumbnails").push([{"data": "cat.png"}])
        await queen.run(handle_signals=True)


asyncio.run(main())
