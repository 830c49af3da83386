"""How a process with a client ends: by a signal, after a fork, or without `close()`."""

import asyncio
import os
import signal
import sys

from queen import Queen
from tests.support.server import SOURCE, Server

FORKED = """
import asyncio, os, sys
from queen import Queen

queen = Queen(sys.argv[1])

async def push(data):
    await (await queen.queue("forked").buffer(message_count=1).push({"data": data})).stored()
    await queen.transport.close()
    await queen.transport.open()

asyncio.run(push("before"))
child = os.fork()
if child == 0:
    asyncio.run(push("child"))
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
asyncio.run(push("parent"))
"""

UNCLOSED_SYNC = """
import sys
from queen import SyncQueen

queen = SyncQueen(sys.argv[1].replace("127.0.0.1", "localhost"))
queen.queue("unclosed").buffer(message_count=9, time_millis=60_000).push({"data": 1})
"""

UNCLOSED = """
import asyncio, sys
from queen import Queen

queen = Queen(sys.argv[1])

async def main():
    await queen.queue("unclosed").buffer(message_count=9, time_millis=60_000).push({"data": 1})

asyncio.run(main())
"""

TERMINATED = """
import asyncio, sys
from queen import PushError, Queen

queen = Queen("http://127.0.0.1:9", retry_attempts=1, close_timeout=float(sys.argv[1]))

@queen.queue("x").handler
async def handle(message): ...

async def main():
    async with queen:
        await queen.queue("y").buffer(time_millis=60_000).push({"data": 1})
        # Once it runs, and so handles signals.
        asyncio.get_running_loop().call_later(0.1, lambda: print("ready", flush=True))
        try:
            await queen.run(handle_signals=True)
        except PushError as error:
            print(len(error.failed), "left", flush=True)

asyncio.run(main())
"""


async def started(script: str, argument: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", script, argument),
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def ended(script: str, argument: str) -> str:
    """The output of the script on stderr. Its exit code must be 0."""
    process = await started(script, argument)
    async with asyncio.timeout(30):
        _, said = await process.communicate()
    assert process.returncode == 0, said.decode()
    return said.decode()


async def test_a_forked_process_has_its_own_sequences(server: Server) -> None:
    await ended(FORKED, server.base_url)

    async with Queen(server.base_url) as queen:
        messages = await queen.queue("forked").batch(10).pop()
    assert [message.data for message in messages] == ["before", "child", "parent"]


async def test_an_unclosed_sync_client_stores_its_buffer_at_exit(server: Server) -> None:
    await ended(UNCLOSED_SYNC, server.base_url)

    async with Queen(server.base_url) as queen:
        (message,) = await queen.queue("unclosed").pop()
    assert message.data == 1


async def test_an_unclosed_client_reports_lost_messages() -> None:
    said = await ended(UNCLOSED, "http://127.0.0.1:9")

    assert "1 buffered messages are lost" in said


async def test_a_signal_stops_a_worker_whose_buffer_cannot_be_stored() -> None:
    process = await started(TERMINATED, "0.5")
    assert process.stdout is not None
    async with asyncio.timeout(20):
        assert await process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGTERM)
        said, _ = await process.communicate()
    assert (process.returncode, said) == (0, b"1 left\n")


async def test_a_second_signal_stops_waiting_for_buffers() -> None:
    process = await started(TERMINATED, "600")
    assert process.stdout is not None
    async with asyncio.timeout(20):
        assert await process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.5)  # Two signals in a row may arrive as one.
        process.send_signal(signal.SIGTERM)
        said, _ = await process.communicate()
    assert (process.returncode, said) == (0, b"1 left\n")
