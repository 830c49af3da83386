"""The server of the tests is a process like any other."""

import asyncio
import signal
from pathlib import Path

from tests.support.server import Server, until


async def test_a_server_starts_answers_and_stops(server: Server) -> None:
    assert (await server.get("/livez")).body == {"status": "alive"}
    # uvicorn ends by the signal that stopped it, once it has drained.
    assert await server.stop() in (0, -signal.SIGTERM)


async def test_what_was_pushed_outlives_a_killed_server(server: Server) -> None:
    item = {"queue": "a/b.c", "payload": {"n": 1}}
    assert (await server.post("/push", {"items": [item]})).status == 201
    server.kill()
    await server.start()

    reply = await server.get("/pop/queue/a%2Fb.c")

    assert [each["data"] for each in reply.body["messages"]] == [{"n": 1}]


async def test_workers_end_with_a_supervisor_that_was_killed(dsn: str) -> None:
    async with Server(dsn, {"NUM_WORKERS": "2"}) as server:
        task = Path(f"/proc/{server.pid}/task/{server.pid}/children")
        children = [
            Path(f"/proc/{pid}") for pid in (await asyncio.to_thread(task.read_text)).split()
        ]
        assert len(children) >= 2

        server.kill()

        async def have_ended() -> bool:
            return not any(map(is_running, children))

        await until(have_ended, seconds=30)


def is_running(process: Path) -> bool:
    """Whether it is there, and no mere entry that its parent has not read."""
    try:
        return "\nState:\tZ" not in (process / "status").read_text()
    except OSError:
        return False
