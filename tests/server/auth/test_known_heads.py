"""A request with a known head is authenticated like every other request."""

import json
import time

from tests.server.keep_alive import connected, posted, trained
from tests.support.callers import KEYS, Caller, make_key
from tests.support.calls import items
from tests.support.clock import Clock
from tests.support.server import Server, until


def pushing(key: str, queue: str = "orders") -> bytes:
    return posted("/push", {"items": items(queue, 1)}, f"Authorization: Bearer {key}")


async def test_a_revoked_key_is_rejected_within_a_second(dsn: str) -> None:
    async with Server(dsn, KEYS) as server:
        admin = Caller(server, await make_key(dsn, role="admin"))
        made = (await admin.post("/tokens", {"name": "web", "role": "write-only"})).body
        async with trained(server, pushing(made["token"])) as connection:
            assert (await admin.delete(f"/tokens/{made['id']}")).status == 200
            revoked_at = time.monotonic()

            async def is_rejected() -> bool:
                head, _ = await connection.exchange(pushing(made["token"]))
                return head.startswith(b"HTTP/1.1 401 ")

            await until(is_rejected, seconds=5)
            assert time.monotonic() - revoked_at < 1


async def test_another_key_does_not_profit_from_a_known_head(dsn: str) -> None:
    async with Server(dsn, KEYS) as server:
        key = await make_key(dsn, role="write-only")
        reader = await make_key(dsn, role="read-only")
        async with trained(server, pushing(key)) as connection:
            forged, _ = await connection.exchange(pushing(key[:-1] + "0" * (key[-1] != "0")))
            other, _ = await connection.exchange(pushing(reader))
            again, _ = await connection.exchange(pushing(key))

    assert [head[9:12] for head in (forged, other, again)] == [b"401", b"403", b"201"]


async def test_scopes_are_checked_for_each_body(dsn: str) -> None:
    async with Server(dsn, KEYS) as server:
        key = await make_key(dsn, permissions=["produce"], scopes=[{"queue": "orders"}])
        async with trained(server, pushing(key)) as connection:
            head, body = await connection.exchange(pushing(key, "others"))

    assert head.startswith(b"HTTP/1.1 403 ")
    assert json.loads(body)["code"] == "forbidden"


async def test_the_rate_limit_of_a_key_holds(dsn: str, clock: Clock) -> None:
    async with Server(dsn, KEYS) as server:
        key = await make_key(dsn, role="write-only", requests_per_second=10)
        async with connected(server) as connection:
            heads = [(await connection.exchange(pushing(key)))[0] for _ in range(15)]

    # The database's clock doesn't move, so the limit isn't refilled.
    assert [head[9:12] for head in heads] == [b"201"] * 10 + [b"429"] * 5
    assert b"retry-after: " in heads[-1]
