"""Two servers, one of which is repeatedly killed: each tick of each second is one message."""

import json
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from tests.support.server import Server, until

SECOND = timedelta(seconds=1)


async def taken(server: Server, found: list[datetime]) -> bool:
    """Pop the available messages, and return whether there were any."""
    wanted = {"batch": 1000, "autoAck": True, "wait": True, "timeout": 2000}
    reply = await server.post("/pop/queue/beats", wanted)
    if reply.status == 204:
        return False
    for message in reply.body["messages"]:
        found.append(datetime.fromisoformat(message["headers"]["queen-tick"]))
    return True


async def beats_while_servers_die(dsn: str, kills: int) -> None:
    found: list[datetime] = []
    quiet = {"LOG_LEVEL": "warning"}
    async with Server(dsn, quiet) as one, Server(dsn, quiet) as other:
        await one.post("/configure", {"queue": "beats"})
        body = {"name": "beat", "queue": "beats", "cron": "* * * * * *", "payload": None}
        assert (await one.post("/schedules", body)).status == 200
        victim, survivor = one, other
        for _ in range(kills):
            # The scheduler is killed in the middle of its ticks, on either server.
            seen = len(found) + 3
            while len(found) < seen:
                await taken(survivor, found)
            victim.kill()
            seen = len(found) + 4
            while len(found) < seen:
                await taken(survivor, found)
            await victim.start()
            victim, survivor = survivor, victim
        await survivor.post("/schedules/beat/pause")

        async def is_drained() -> bool:
            return not await taken(survivor, found)

        await until(is_drained, seconds=30)
    gaps = [later - each for each, later in pairwise(found)]
    print(json.dumps({"ticks": len(found), "kills": kills}), flush=True)
    assert len(found) > kills * 7
    assert set(gaps) == {SECOND}, found


@pytest.mark.nightly
async def test_each_tick_is_one_message_while_servers_are_killed(dsn: str) -> None:
    await beats_while_servers_die(dsn, 2)


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_each_tick_is_one_message_in_thirty_kills(dsn: str) -> None:
    await beats_while_servers_die(dsn, 30)
