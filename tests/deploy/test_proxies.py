"""The proxies of docs/operate/deploy/reverse-proxy.md: TLS, long polls, WebSockets, slashes."""

import asyncio
import io
import json
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest
from yarl import URL

from tests.deploy.files import PAGES, fence, program
from tests.deploy.proxies import PROXIES, Proxy, proxy
from tests.support.prefork import SOURCE
from tests.support.server import Server, until

QUEUE = "proxy/check"


class Answer(NamedTuple):
    status: int
    body: Any


class Caller(NamedTuple):
    """Sends requests through a proxy."""

    proxy: Proxy
    session: aiohttp.ClientSession

    def url(self, path: str) -> URL:
        return URL(self.proxy.base_url + path, encoded=True)

    async def call(self, method: str, path: str, body: object = None, **headers: str) -> Answer:
        data = None if body is None else io.BytesIO(json.dumps(body).encode())
        sent = {**headers, **({} if body is None else {"Content-Type": "application/json"})}
        async with self.session.request(
            method, self.url(path), data=data, headers=sent, ssl=self.proxy.tls
        ) as answer:
            is_json = "json" in answer.content_type
            return Answer(answer.status, await answer.json(content_type=None) if is_json else None)

    async def push(self, *payloads: object, **headers: str) -> Answer:
        items = [{"queue": QUEUE, "payload": each} for each in payloads]
        return await self.call("POST", "/api/v1/push", {"items": items}, **headers)


@pytest.fixture(params=sorted(PROXIES))
async def caller(request: pytest.FixtureRequest, dsn: str, tmp_path: Path) -> AsyncIterator[Caller]:
    settings = {"QUEEN_BEHIND_PROXY": "true", "QUEEN_SAMPLE_SECONDS": "0.2"}
    async with (
        Server(dsn, settings) as server,
        proxy(request.param, server.base_url, tmp_path) as found,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=90)) as session,
    ):
        caller = Caller(found, session)

        async def is_ready() -> bool:
            # A health check must have succeeded.
            return (await caller.call("GET", "/readyz")).status == 200

        await until(is_ready, seconds=20)
        yield caller


async def test_a_proxy_forwards_all_kinds_of_requests(caller: Caller) -> None:
    """One test, because each starts a server and a proxy."""
    await encoded_slashes_arrive(caller)
    await large_bodies_arrive(caller)
    await only_own_pages_may_call(caller)
    await dashboards_get_live_updates(caller)
    await long_polls_wait(caller, millis=1_500)


async def encoded_slashes_arrive(caller: Caller) -> None:
    assert (await caller.push(1)).status == 201
    found = await caller.call("GET", "/api/v1/resources/queues/proxy%2Fcheck")
    assert (found.status, found.body["name"]) == (200, QUEUE)


async def large_bodies_arrive(caller: Caller) -> None:
    assert (await caller.push(*("x" * 900_000 for _ in range(5)))).status == 201


async def only_own_pages_may_call(caller: Caller) -> None:
    """The check of a browser's origin uses the forwarded host and protocol."""
    assert (await caller.push(1, Origin=caller.proxy.base_url)).status == 201
    rejected = await caller.push(1, Origin="https://evil.example")
    assert (rejected.status, rejected.body["code"]) == (403, "origin_refused")


async def dashboards_get_live_updates(caller: Caller) -> None:
    url = caller.url("/ws/dashboard")
    origin = {"Origin": caller.proxy.base_url}
    async with (
        asyncio.timeout(20),
        caller.session.ws_connect(url, ssl=caller.proxy.tls, headers=origin) as opened,
    ):
        assert (await opened.receive_json())["event"]


async def long_polls_wait(caller: Caller, millis: int) -> None:
    began = asyncio.get_running_loop().time()
    path = f"/api/v1/pop/queue/{QUEUE.replace('/', '%2F')}?consumerGroup=new&subscriptionMode=new"
    answer = await caller.call("GET", f"{path}&wait=true&timeout={millis}")
    assert answer.status == 204
    assert asyncio.get_running_loop().time() - began >= millis / 1000 - 0.1


@pytest.mark.nightly
@pytest.mark.timeout(120)
async def test_the_page_checks_a_proxy(caller: Caller, tmp_path: Path) -> None:
    """Its last command is the longest long poll that a server allows."""
    script = fence("reverse-proxy.md", "sh", "queen health")
    script = script.replace("https://queen.example.com", caller.proxy.base_url)
    process = await asyncio.create_subprocess_exec(
        *("bash", "-euc", script.replace("qk_…", "")),
        env={
            "PATH": f"{Path(program('queen')).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(SOURCE),
            "XDG_CONFIG_HOME": str(tmp_path),
            "QUEEN_CA_FILE": str(caller.proxy.ca_file),
            "CURL_CA_BUNDLE": str(caller.proxy.ca_file),
        },
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    assert re.fullmatch(r"204 after 60\.\d+ s", out.decode().splitlines()[-1])


def test_the_page_names_only_proxies_that_are_run() -> None:
    text = (PAGES / "reverse-proxy.md").read_text("utf-8")
    headings = [line.removeprefix("## ").lower() for line in text.splitlines()]
    assert set(PROXIES) <= set(headings)
    assert "CI doesn't run this example" in text.partition("## Traefik")[2].partition("##")[0]
