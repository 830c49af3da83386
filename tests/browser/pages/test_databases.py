"""Several databases: their slots, load and moves."""

import re
from collections.abc import AsyncIterator, Iterator
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from queen.store.cluster.joining import join
from tests.browser.conftest import FAST, NARROW, WIDE
from tests.browser.looks import look
from tests.cluster.operators.operations import add_partitions, blocked, ended, execute
from tests.support.postgres import Server as PostgresServer
from tests.support.server import Server, until

pytestmark = pytest.mark.asyncio(loop_scope="session")

GONE = 11
"""The number of the database that is unavailable, of sixteen."""
TENANTS = {"shop": ("orders", "invoices"), "mail": ("emails",), "video": ("uploads", "thumbs")}


@pytest.fixture(scope="module")
def databases(postgres: PostgresServer) -> Iterator[dict[str, str]]:
    """Two empty databases, by name."""
    created = {name: f"browser_{uuid4().hex}" for name in ("main", "two")}
    yield {name: postgres.create_database(database) for name, database in created.items()}
    for database in created.values():
        postgres.drop_database(database)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def cluster(databases: dict[str, str]) -> AsyncIterator[Server]:
    """A server with three tenants in two databases."""
    await join(databases)
    async with Server(databases, {**FAST, "QUEEN_ENVIRONMENT": "production"}) as server:
        for namespace, queues in TENANTS.items():
            for queue in queues:
                body = {"queue": queue, "namespace": namespace}
                assert (await server.post("/configure", body)).status == 200
                items = [{"queue": queue, "payload": "x" * 500}] * 40
                assert (await server.post("/push", {"items": items})).status == 201

        async def have_loads() -> bool:
            slots = (await server.get("/shards")).body["slots"]
            return all(each["bytesPerSecond"] for each in slots)

        await until(have_loads, seconds=30)
        yield server


async def slot_of(server: Server, queue: str) -> dict[str, Any]:
    slots = (await server.get("/shards")).body["slots"]
    (found,) = (each for each in slots if queue in each["queues"])
    return found


def other(database: str) -> str:
    return "two" if database == "main" else "main"


async def drained(server: Server, database: str) -> None:
    """Move all slots of a database that has any."""
    reply = await server.post("/shards/drain", {"database": database})
    if reply.status == 202:
        await ended(server, reply.body["operation"]["id"])


async def opened(page: Page, server: Server, query: str = "") -> None:
    await page.goto(f"{server.base_url}/system?tab=databases{query}")
    await expect(page.get_by_role("table", name="Databases")).to_be_visible()


async def test_databases_show_their_slots_and_load(page: Page, cluster: Server) -> None:
    await opened(page, cluster)
    rows = page.get_by_role("table", name="Databases").locator("[data-row]")
    await expect(rows).to_have_count(2)
    await expect(rows.first).to_contain_text(re.compile(r"main.*available.*\d+ B/s|main.*KB/s"))
    cells = page.locator("[data-map] [data-state]")
    await expect(cells).to_have_count(1_024)
    await expect(page.locator("[data-map] [data-state=used]")).to_have_count(3)
    slots = page.get_by_role("table", name="Slots with queues").locator("[data-row]")
    await expect(slots).to_have_count(3)
    await expect(slots.filter(has_text="invoices, orders")).to_contain_text("B/s")


async def test_the_map_leads_to_a_slot(page: Page, cluster: Server) -> None:
    slot = await slot_of(cluster, "emails")
    await opened(page, cluster)
    await page.locator(f"[data-map] [data-slot='{slot['slot']}']").click()
    rows = page.get_by_role("table", name="Slots with queues").locator("[data-row]")
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text("emails")
    await expect(page).to_have_url(re.compile(f"slot={slot['slot']}"))
    await page.reload()
    await expect(rows).to_have_count(1)
    await rows.get_by_role("link", name="emails").click()
    await expect(page).to_have_url(f"{cluster.base_url}/queues/emails")


async def test_a_namespace_is_moved(page: Page, cluster: Server) -> None:
    target = other((await slot_of(cluster, "orders"))["database"])
    await opened(page, cluster)
    await page.get_by_role("button", name="Move queues").click()
    dialog = page.get_by_role("dialog")
    move = dialog.get_by_role("button", name="Move", exact=True)
    await expect(move).to_be_disabled()
    await dialog.get_by_label("Namespace").last.fill("shop")
    await dialog.get_by_label("To database").select_option(target)
    await move.click()
    await expect(dialog).to_have_count(0)
    await expect(page.locator("[data-operation=done]")).to_contain_text("Move slots: done")
    row = page.get_by_role("table", name="Slots with queues").locator("[data-row]")
    await expect(row.filter(has_text="orders")).to_contain_text(target)
    assert (await slot_of(cluster, "orders"))["database"] == target


async def test_a_rejected_move_shows_the_reason(page: Page, cluster: Server) -> None:
    await opened(page, cluster)
    await page.get_by_role("button", name="Move queues").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Namespace").last.fill("absent")
    await dialog.get_by_role("button", name="Move", exact=True).click()
    await expect(dialog.get_by_role("alert")).to_contain_text("namespace absent has no queues")


@pytest.mark.parametrize("width", [WIDE, NARROW])
async def test_a_move_shows_its_progress_and_can_be_cancelled(
    page: Page, cluster: Server, databases: dict[str, str], width: int
) -> None:
    await page.set_viewport_size({"width": width, "height": 900})
    await add_partitions(cluster, "uploads")
    slot = await slot_of(cluster, "uploads")
    target = other(slot["database"])
    await opened(page, cluster)
    async with blocked(databases[target]):
        await page.get_by_role("button", name=f"Move slot {slot['slot']}").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("thumbs, uploads")
        await dialog.get_by_role("button", name="Move", exact=True).click()
        move = page.locator("[data-move]")
        await expect(move).to_contain_text("0 of 1 slot moved")
        text = f"slot {slot['slot']} from {slot['database']} to {target}"
        await expect(move.locator("[data-copying]")).to_contain_text(text)
        await expect(move.locator("[data-copying]")).to_contain_text("99 % copied")
        await expect(page.locator("[data-map] [data-state=moving]")).to_have_count(1)
        await look(page, "databases")
        await move.get_by_role("button", name="Cancel").click()
        await page.get_by_role("dialog").get_by_role("button", name="Cancel move").click()
        await expect(move).to_have_count(0)
    await expect(page.locator("[data-map] [data-state=moving]")).to_have_count(0)
    assert (await slot_of(cluster, "uploads"))["database"] == slot["database"]


async def test_a_slot_shows_what_prevents_its_move(
    page: Page, cluster: Server, databases: dict[str, str]
) -> None:
    slot = await slot_of(cluster, "emails")
    dsn = databases[slot["database"]]
    await execute(
        dsn,
        "select queen.open_archive('reader', 'emails', 'parquet', '/lake')",
    )
    await opened(page, cluster)
    row = page.get_by_role("table", name="Slots with queues").locator("[data-row]")
    await expect(row.filter(has_text="emails")).to_contain_text("archive reader reads queue emails")
    await page.get_by_role("button", name=f"Move slot {slot['slot']}").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("archive reader reads queue emails")
    await look(page, "move-slot")
    await page.keyboard.press("Escape")
    await execute(dsn, "select queen.drop_archive('reader')")


async def test_a_database_is_drained_after_a_confirmation(page: Page, cluster: Server) -> None:
    await opened(page, cluster)
    await page.get_by_role("button", name="Drain two").click()
    dialog = page.get_by_role("dialog")
    drain = dialog.get_by_role("button", name="Drain", exact=True)
    await expect(drain).to_be_disabled()
    await dialog.get_by_label("to confirm").fill("two")
    await drain.click()
    await expect(page.locator("[data-operation=done]")).to_contain_text("Move slots: done")
    await expect(page.get_by_role("button", name="Drain two")).to_be_disabled()
    await expect(page.locator("[data-map=main] [data-state]")).to_have_count(1_024)


async def test_databases_are_rebalanced_after_the_plan_is_shown(
    page: Page, cluster: Server
) -> None:
    """All slots are in the first database."""
    await drained(cluster, "two")
    await opened(page, cluster)
    await page.get_by_role("button", name="Rebalance").click()
    dialog = page.get_by_role("dialog")
    moves = dialog.get_by_role("list", name="Planned moves").get_by_role("listitem")
    # Their number depends on when the messages were pushed.
    await expect(moves.first).to_contain_text("main has more")
    before_and_after = dialog.get_by_role("table", name="Load before and after")
    await expect(before_and_after.get_by_role("row").last).to_contain_text("0 → ")
    await look(page, "rebalance")
    await dialog.get_by_role("button", name="Move slots").click()
    await expect(page.locator("[data-operation=done]")).to_contain_text("Move slots: done")
    await expect(page.locator("[data-map=two] [data-state=used]").first).to_be_visible()


async def test_one_database_is_explained(page: Page, empty: Server) -> None:
    await page.goto(f"{empty.base_url}/system")
    await page.get_by_role("link", name="Databases").click()
    note = page.locator("[data-empty]")
    await expect(note).to_contain_text("This server has one database")
    guide = note.get_by_role("link", name="How to use several databases")
    await expect(guide).to_have_attribute("href", re.compile("operate/several-databases"))


@pytest.mark.parametrize("width", [WIDE, NARROW])
async def test_sixteen_databases_with_many_queues_fit(
    page: Page, cluster: Server, width: int
) -> None:
    await page.set_viewport_size({"width": width, "height": 900})
    await page.route("**/api/v1/shards", lambda route: route.fulfill(json=LARGE))
    await opened(page, cluster)
    await expect(page.locator("[data-map]")).to_have_count(16)
    await expect(page.locator("[data-map] [data-state]")).to_have_count(1_024)
    await expect(page.locator("[data-map] [data-state=moving]")).to_have_count(2)
    await look(page, "sixteen-databases")


def _database(number: int) -> dict[str, Any]:
    slots = [{"first": n, "last": n} for n in range(number, 1_024, 16)]
    gone = number == GONE
    return {
        "name": "main" if number == 0 else f"shard-eu-west-{number:02}",
        "available": not gone,
        "slots": None if gone else 64,
        "ranges": slots,
        "queues": None if gone else 12_000 * number,
        "bytes": None if gone else 10**9 * 7 * number,
        "messagesPerSecond": None if gone else 812.5 * number,
        "bytesPerSecond": None if gone else 2.6e6 * number,
    }


def _slot(number: int) -> dict[str, Any]:
    target = {"operation": "4096", "copiedBytes": 450_000_000, "totalBytes": 10**9}
    return {
        "slot": number,
        "database": _database(number % 16)["name"],
        "leaving": number == 32,
        "epoch": 1,
        "queues": [f"tenant-{number}-{name}" for name in ("orders", "invoices", "emails", "jobs")],
        "queueCount": 4 + number,
        "messagesPerSecond": number * 3.25,
        "bytesPerSecond": number * 1_024.0,
        "move": {"to": "shard-eu-west-02", **target} if number in (32, 33) else None,
        "hindrances": ["archive lake reads queue tenant-64-orders"] if number == 64 else [],
    }


LARGE = {
    "databases": [_database(number) for number in range(16)],
    "slots": [_slot(number) for number in range(700) if number % 16 != GONE],
    "operations": [
        {
            "id": "4096",
            "kind": "move_slots",
            "state": "running",
            "done": 3,
            "total": 12,
            "error": "a transaction is open in main, and later messages are copied after its end",
            "queue": None,
            "createdBy": "operator",
            "createdAt": "2020-01-01T00:00:00Z",
            "finishedAt": None,
        }
    ],
}
