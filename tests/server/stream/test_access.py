"""A stream obeys keys, scopes, rates and origins as requests over HTTP do."""

import time
from collections.abc import AsyncIterator

import aiohttp
import pytest

from tests.server.stream.streams import items, payloads, stream
from tests.support.callers import KEYS, Caller, make_key
from tests.support.server import Server, until


@pytest.fixture
async def guarded(dsn: str) -> AsyncIterator[Server]:
    async with Server(dsn, KEYS) as server:
        yield server


def bearing(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


async def test_a_stream_needs_an_api_key(guarded: Server, dsn: str) -> None:
    for headers in ({}, bearing("qk_" + "0" * 40)):
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            async with stream(guarded, headers):
                pass
        assert caught.value.status == 401
    async with stream(guarded, bearing(await make_key(dsn))) as opened:
        assert "result" in await opened.call(push=items("q", 1))


async def test_each_operation_needs_its_permission(guarded: Server, dsn: str) -> None:
    writer = await make_key(dsn, role="write-only")
    async with stream(guarded, bearing(writer)) as opened:
        assert "result" in await opened.call(push=items("q", 1))
        frames = [
            await opened.call(pop={"queue": "q"}),
            await opened.call(consume={"queue": "q", "credit": 1}),
            await opened.call(complete={"leaseId": "0.1.1.00"}),
            await opened.call(release={"leaseId": "0.1.1.00"}),
            await opened.call(extend={"leaseIds": ["0.1.1.00"]}),
            await opened.call(ack={"id": "x"}),
            await opened.call(ackBatch={"acknowledgments": [{"id": "x"}]}),
        ]
    assert {each["problem"]["code"] for each in frames} == {"forbidden"}


async def test_a_push_needs_the_permission_to_produce(guarded: Server, dsn: str) -> None:
    for permissions in (["consume"], ["browse"]):
        key = await make_key(dsn, permissions=permissions)
        async with stream(guarded, bearing(key)) as opened:
            frame = await opened.call(push=items("q", 1))
        assert frame["problem"]["code"] == "forbidden"


async def test_operations_stay_inside_the_scopes_of_a_key(guarded: Server, dsn: str) -> None:
    admin = Caller(guarded, await make_key(dsn))
    key = await make_key(dsn, role="read-write", scopes=[{"queue": "mine-*"}])
    await admin.post("/push", items("theirs", 1))
    (message,) = (await admin.post("/pop/queue/theirs", {})).body["messages"]
    async with stream(guarded, bearing(key)) as opened:
        assert "result" in await opened.call(push=items("mine-1", 1))
        assert payloads(await opened.call(pop={"queue": "mine-1"})) == [1]
        frames = [
            await opened.call(push=items("theirs", 1)),
            await opened.call(pop={"queue": "theirs"}),
            await opened.call(consume={"queue": "theirs", "credit": 1}),
            await opened.call(complete={"leaseId": message["leaseId"]}),
            await opened.call(ack={"id": message["id"], "leaseId": message["leaseId"]}),
        ]
    assert {each["problem"]["code"] for each in frames} == {"forbidden"}


async def test_operations_count_against_the_rate_of_a_key(guarded: Server, dsn: str) -> None:
    key = await make_key(dsn, role="read-write", requests_per_second=5)
    async with stream(guarded, bearing(key)) as opened:
        frames = [await opened.call(push=items("q", n)) for n in range(20)]
    limited = [each for each in frames if "problem" in each]
    assert limited
    assert {each["problem"]["code"] for each in limited} == {"rate_limited"}
    assert all(each["retryAfter"] >= 1 for each in limited)


async def test_a_new_rate_of_a_key_applies_to_its_open_stream(guarded: Server, dsn: str) -> None:
    admin = Caller(guarded, await make_key(dsn))
    body = {"name": "busy", "role": "read-write"}
    made = (await admin.post("/tokens", body)).body
    async with stream(guarded, bearing(made["token"])) as opened:
        for number in range(20):
            assert "result" in await opened.call(push=items("q", number))
        await admin.post(f"/tokens/{made['id']}", {**body, "requestsPerSecond": 5})

        async def is_limited() -> bool:
            frames = [await opened.call(push=items("q", n)) for n in range(20)]
            codes = {each["problem"]["code"] for each in frames if "problem" in each}
            return codes == {"rate_limited"}

        await until(is_limited)


async def test_a_revoked_key_ends_its_stream_within_a_second(guarded: Server, dsn: str) -> None:
    admin = Caller(guarded, await make_key(dsn))
    made = (await admin.post("/tokens", {"name": "stolen", "role": "read-write"})).body
    async with stream(guarded, bearing(made["token"])) as opened:
        await opened.call(push=items("q", 1))
        await opened.start(consume={"queue": "q", "consumerGroup": "g", "credit": 9})
        began = time.monotonic()
        await admin.delete(f"/tokens/{made['id']}")
        assert await opened.closed() == 1008
    assert time.monotonic() - began < 3


async def test_a_page_of_another_site_cannot_open_a_stream(shared: Server) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
        async with stream(shared, {"Origin": "https://evil.example"}):
            pass
    assert caught.value.status == 403
