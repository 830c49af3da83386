"""The dashboard on a queue of a million partitions: every page opens quickly."""

import asyncio
import itertools
import json
import statistics
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import asyncpg
import pytest
import pytest_asyncio
from playwright.async_api import Page, Response, expect

from benchmarks.http_load import Connection, connections, request
from benchmarks.load import SETTINGS, machine
from queen.store.migrations import migrate
from tests.browser.bare import Bare, Visit, bare_browser
from tests.browser.conftest import WIDE
from tests.browser.looks import keep
from tests.support.postgres import Postgres
from tests.support.server import Server

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.slow,
    pytest.mark.timeout(3_600),
]

QUEUE = "events"
PARTITIONS = 1_000_000
DEPTH = 10
A_CALL = 100
"""Partitions per push, whose messages fill a push."""
CALLERS = 8
HELD = 500
DEAD = 1_000
ROUNDS = 3
MOST_TRIES = 10
MOST_QUIET_SECONDS = 60
MOST_STOLEN = 0.1
MOST_SECONDS = 1.0
MOST_DATABASE_MILLIS = 200.0

PAGES = {
    "overview": ("/", "main:has([data-chart] canvas) [data-row]"),
    "overview of a week": ("/?range=7d", "main:has([data-chart] canvas) [data-row]"),
    "queues": ("/queues", "[data-row]"),
    "queue": (f"/queues/{QUEUE}?range=1h", "[data-chart] canvas"),
    "partitions": (f"/queues/{QUEUE}?tab=partitions", "[data-row]"),
    "partitions by prefix": (f"/queues/{QUEUE}?tab=partitions&prefix=user-77777", "[data-row]"),
    "partitions that are leased": (
        f"/queues/{QUEUE}?tab=partitions&state=leased",
        "[data-further]",
    ),
    "partitions that are ready": (f"/queues/{QUEUE}?tab=partitions&state=ready", "[data-row]"),
    "partitions that are idle": (f"/queues/{QUEUE}?tab=partitions&state=idle", "[data-row]"),
    "groups of the queue": (f"/queues/{QUEUE}?tab=groups", "[data-row]"),
    "groups by lag": (f"/queues/{QUEUE}?tab=groups&sort=-lag", "[data-row]"),
    "deliveries": (f"/queues/{QUEUE}?tab=deliveries", "[data-row]"),
    "configuration": (f"/queues/{QUEUE}?tab=configuration", "#option-leaseTime"),
    "messages": (f"/messages?queue={QUEUE}", "[data-row]"),
    "messages of a partition": (f"/messages?queue={QUEUE}&q=partition:user-500000", "[data-row]"),
    "messages by payload": (f"/messages?queue={QUEUE}&q=payload.n:77", "[data-scanned]"),
    "messages by status": (f"/messages?queue={QUEUE}&q=status:processing", "[data-scanned]"),
    "tail": (f"/tail?queue={QUEUE}", "[data-row]"),
    "dead letters": (f"/dead-letters?queue={QUEUE}", "tr[aria-rowindex]"),
    "oldest dead letters": (f"/dead-letters?queue={QUEUE}&sort=failedAt", "tr[aria-rowindex]"),
    "queues with dead letters": ("/dead-letters", "[data-row]"),
    "consumer groups": ("/groups", "[data-row]"),
    "group": (f"/groups/billing/queues/{QUEUE}", "[data-row]"),
    "jobs": ("/jobs", "[data-empty]"),
    "workflows": ("/workflows", "[data-empty]"),
    "traces": ("/traces", "[data-empty]"),
    "analytics": ("/analytics?range=6h", "[data-chart] canvas"),
    "pipelines": ("/pipelines", "[data-empty]"),
    "system": ("/system", "[data-row]"),
    "upkeep": ("/system?tab=upkeep", "[data-row]"),
    "database": ("/system?tab=database", "[data-row]"),
    "settings": ("/system?tab=settings", "[data-row]"),
    "audit": ("/system?tab=audit", "[data-row], [data-empty]"),
}


def pushes() -> Iterator[bytes]:
    """Bodies of all pushes, each with all messages of some partitions."""
    for first in range(0, PARTITIONS, A_CALL):
        items = (
            b'{"queue":"%b","partition":"user-%d","payload":{"n":%d,"user":%d}}'
            % (QUEUE.encode(), partition, n, partition)
            for partition in range(first, first + A_CALL)
            for n in range(DEPTH)
        )
        yield b'{"items":[%b]}' % b",".join(items)


async def fill(server: Server) -> None:
    """Push and consume a million partitions, of which a few are active."""
    bodies = enumerate(pushes(), start=1)

    async def push(line: Connection) -> None:
        for number, body in bodies:
            answer = await line.ask(request("/push", body))
            assert answer[9:12] == b"201", answer
            if number % 1_000 == 0:
                print(f"pushed {number * A_CALL * DEPTH:,} messages", flush=True)

    lines = await connections(server.port, CALLERS)
    await asyncio.gather(*map(push, lines))
    for line in lines:
        line.transport.close()
    for number in itertools.count():
        pop = {"queue": QUEUE, "consumerGroup": "billing", "batch": 100, "partitions": 100}
        popped = (await server.post("/pop", pop)).body["messages"]
        status = "dlq" if number < DEAD // 100 else "completed"
        if number * 100 >= DEAD + HELD * 10:
            break
        acks = [
            {
                "transactionId": each["transactionId"],
                "partitionId": each["partitionId"],
                "leaseId": each["leaseId"],
                "status": status,
                "error": f"no such user {each['data']['user'] % 7}" if status == "dlq" else None,
            }
            for each in popped
        ]
        if number % 10 < 9:
            reply = await server.post(
                "/ack/batch", {"acknowledgments": acks, "consumerGroup": "billing"}
            )
            assert reply.status == 200, reply


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def large() -> AsyncIterator[Server]:
    with Postgres(SETTINGS) as postgres:
        dsn = postgres.create_database("scale")
        await migrate(dsn)
        async with Server(dsn, {"LOG_LEVEL": "warning"}) as server:
            options = {"leaseTime": 3_600}
            await server.post("/configure", {"queue": QUEUE, "options": options})
            await fill(server)
            connection = await asyncpg.connect(dsn)
            await connection.execute("vacuum analyze")
            await connection.close()
            print(
                json.dumps({**machine(), "partitions": PARTITIONS, "messages": PARTITIONS * DEPTH})
            )
            yield server


class Processors(NamedTuple):
    """CPU time since the machine was started."""

    ticks: int
    stolen: int
    """Time that the hypervisor gave to other machines."""

    def stolen_since(self, before: "Processors") -> float:
        return (self.stolen - before.stolen) / max(self.ticks - before.ticks, 1)


def processors() -> Processors:
    ticks = [int(each) for each in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return Processors(sum(ticks), ticks[7])


async def quiet() -> None:
    """Wait for a time with little stolen CPU time, up to a limit."""
    for _ in range(MOST_QUIET_SECONDS):
        before = processors()
        await asyncio.sleep(1)
        if processors().stolen_since(before) <= MOST_STOLEN:
            return


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def operator(large: Server) -> AsyncIterator[Bare]:
    """A browser that has opened the overview, so that the common resources are cached."""
    async with bare_browser(WIDE) as bare:
        for _ in range(3):
            await bare.visit(large.base_url, "[data-row]")
        yield bare


class Times:
    """The times of several visits to a page, each in a new tab."""

    def __init__(self, visits: Sequence[Visit]) -> None:
        self._taken = [visit.seconds for visit in visits]
        self._median = statistics.median(self._taken)
        spent = itertools.chain.from_iterable(visit.spent for visit in visits)
        self._most_millis, self._url = max(spent, default=(0.0, "nothing"))

    @classmethod
    async def of(cls, operator: Bare, url: str, ready: str, *, is_cached: bool = True) -> Self:
        """Measure, and repeat while other machines use much of the CPU, which only adds time."""
        for _ in range(MOST_TRIES):
            await quiet()
            before = processors()
            times = cls(
                [await operator.visit(url, ready, is_cached=is_cached) for _ in range(ROUNDS)]
            )
            share = processors().stolen_since(before)
            if times.are_short or share <= MOST_STOLEN:
                return times
            print(f"others had {share:.0%} of the machine: {times}", flush=True)
        raise AssertionError(f"others had the machine {MOST_TRIES} times")

    @property
    def are_short(self) -> bool:
        return self._median < MOST_SECONDS and self._most_millis < MOST_DATABASE_MILLIS

    def __str__(self) -> str:
        each = ", ".join(f"{seconds:.2f}" for seconds in self._taken)
        return f"{self._median:.2f} s ({each}), {self._most_millis:.0f} ms of {self._url}"


@pytest.mark.parametrize("name", PAGES)
async def test_a_page_opens_quickly(operator: Bare, large: Server, name: str) -> None:
    path, ready = PAGES[name]
    again = await Times.of(operator, large.base_url + path, ready)
    first = await Times.of(operator, large.base_url + path, ready, is_cached=False)
    told = f"{name}: {again}; with an empty cache {first}"
    print(told, flush=True)
    assert again.are_short, told
    assert first.are_short, told


async def test_a_million_rows_can_be_scrolled(page: Page, large: Server) -> None:
    spent: list[tuple[float, str]] = []

    def hear(response: Response) -> None:
        if (timing := response.headers.get("server-timing")) is not None:
            spent.append((float(timing.removeprefix("db;dur=")), response.url))

    page.on("response", hear)
    rows = page.locator("[data-row]")
    for _ in range(MOST_TRIES):
        await quiet()
        before = processors()
        spent.clear()
        await page.goto(f"{large.base_url}/queues/{QUEUE}?tab=partitions")
        await expect(rows.first).to_be_visible()
        await expect(page.get_by_text("200 loaded of more than 2,000")).to_be_visible()
        for loaded in ("400", "600", "800", "1,000"):
            await page.keyboard.press("End")
            await expect(page.get_by_text(f"{loaded} loaded of")).to_be_visible()
        assert await rows.count() < 100
        share = processors().stolen_since(before)
        print(f"scrolled: {max(spent)}; others had {share:.0%} of the machine", flush=True)
        if max(spent)[0] < MOST_DATABASE_MILLIS or share <= MOST_STOLEN:
            break
    assert max(spent)[0] < MOST_DATABASE_MILLIS, max(spent)
    await keep(page, "million-partitions")


async def test_a_message_in_the_middle_opens_quickly(operator: Bare, large: Server) -> None:
    found = await large.get("/messages", queue=QUEUE, partition="user-500000", limit=5)
    message: dict[str, Any] = found.body["messages"][2]
    times = await Times.of(operator, f"{large.base_url}/messages/{message['id']}", "[data-path=n]")
    print(f"message: {times}")
    assert times.are_short


async def test_loading_more_finds_rare_states(page: Page, large: Server) -> None:
    await page.goto(f"{large.base_url}/queues/{QUEUE}?tab=partitions&state=leased")
    further = page.locator("[data-further]")
    await expect(further).to_contain_text("No match in the partitions")
    async with page.expect_response(lambda response: "cursor=" in response.url):
        await further.get_by_role("button", name="Load more").click()
    await further.get_by_role("link", name="Deliveries").click()
    await expect(page.locator("[data-row]").first).to_be_visible()


async def test_the_messages_of_a_purge_are_counted_quickly(page: Page, large: Server) -> None:
    await page.goto(f"{large.base_url}/queues/{QUEUE}?tab=configuration")
    await page.get_by_role("button", name="More actions").click()
    await page.get_by_role("menuitem", name="Purge").click()
    dry = page.get_by_role("dialog").locator("[data-dry-run]")
    await expect(dry).to_contain_text("at least")
    connection = await asyncpg.connect(large.environment["DATABASE_URL"])
    try:
        for completed, before in itertools.product(("true", "false"), ("null", "queen.now()")):
            # The server's query, timed by the database, because only reads have a Server-Timing
            # header.
            call = f"queen.count_purge('{QUEUE}', null, {completed}, {before}, 250)"
            text = f"explain (analyze, format json) select * from {call}"
            millis = json.loads(await connection.fetchval(text))[0]["Execution Time"]
            print(f"{call}: {millis:.0f} ms", flush=True)
            assert millis < MOST_DATABASE_MILLIS, call
    finally:
        await connection.close()
