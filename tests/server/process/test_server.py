"""The server in tests is a real process."""

import asyncio
import signal
from pathlib import Path

from tests.support.server import Server, until


async def test_a_server_starts_responds_and_stops(server: Server) -> None:
    assert (await server.get("/livez")).body == {"status": "alive"}
    # After draining, uvicorn ends by the signal that stopped it.
    assert await server.stop() in (0, -signal.SIGTERM)


async def test_pushed_messages_survive_a_killed_server(server: Server) -> None:
    item = {"queue": "a/b.c", "payload": {"n": 1}}
    assert (await server.post("/push", {"items": [item]})).status == 201
    server.kill()
    await server.start()

    reply = await server.get("/pop/queue/a%2Fb.c")

    assert [each["data"] for each in reply.body["messages"]] == [{"n": 1}]


async def test_workers_end_when_their_supervisor_is_killed(dsn: str) -> None:
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
    """Whether the process exists and isn't a zombie."""
    try:
        return "\nState:\tZ" not in (process / "status").read_text()
    except OSError:
        return False
