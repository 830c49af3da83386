"""Requests without a key cost the database little, however many there are."""

import asyncio
import re

from tests.support.callers import Caller

CALLS = re.compile(rb'^queen_db_call_seconds_count\{call="(\w+)"\} (\d+)$', re.MULTILINE)


async def statements(admin: Caller, *names: str) -> int:
    """The number of times that the server has sent these statements."""
    found = dict(CALLS.findall((await admin.get("/metrics")).body))
    return sum(int(found.get(name.encode(), 0)) for name in names)


async def test_probes_share_one_database_check(admin: Caller) -> None:
    before = await statements(admin, "now", "migrations")
    loop = asyncio.get_running_loop()
    began_at = loop.time()

    async def probe(path: str) -> int:
        return (await admin.server.get(path)).status

    for _ in range(5):
        answers = await asyncio.gather(*(probe(path) for path in ("/readyz", "/health") * 50))
        assert set(answers) == {200}

    checks = 2 + int(loop.time() - began_at)
    assert await statements(admin, "now", "migrations") - before <= 2 * checks


async def test_a_malformed_ticket_causes_no_statement(admin: Caller) -> None:
    before = await statements(admin, "take_ticket")

    for ticket in ("x", "qt_", "qt_" + "g" * 64, "qt_" + "a" * 63, "qt_" + "a" * 65):
        session = admin.server.session
        async with session.get(
            f"{admin.server.base_url}/ws/dashboard?ticket={ticket}",
            headers={
                "connection": "upgrade",
                "upgrade": "websocket",
                "sec-websocket-version": "13",
                "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
            },
        ) as answer:
            assert answer.status == 401

    assert await statements(admin, "take_ticket") == before
