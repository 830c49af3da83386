"""The server of the tests is a process like any other."""

import signal

from tests.server.server import Server


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
