"""The guide to several databases works from the top, while clients of a tenant use its queues."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from queen import Queen
from tests.cluster.tenant import Tenant
from tests.support.ports import free_port
from tests.support.postgres import Postgres
from tests.support.server import Server
from tests.support.tutorial import Tutorial

PAGE = Path(__file__).parents[2] / "docs" / "operate" / "several-databases.md"
TEXT = PAGE.read_text("utf-8")
FOLLOWED = (
    "Add a database",
    "Move a tenant",
    "See the load",
    "Spread a queue",
    "Limits of spread queues",
    "Pin a hot partition",
    "Enqueue in any database",
    "Push to another database in a transaction",
    "Remove a database",
)
"""The sections with commands, in the order of the page."""
ELSEWHERE = {"Rebalance databases", "Prefer databases"}
"""Plans depend on the load, and servers differ in their preferences. Other tests cover them."""
VARYING = {
    # Lines of progress can follow.
    r"^operation \d+ (.*)$": "operation … \\1\n…",
    # The load of a slot, and the size and load of a database.
    r"^(\d+ .*?)[\d.]+ +-$": r"\1…-",
    r"^(\w+ +yes +\d+ +\d+ +)\d+ +[\d.]+$": r"\1…",
}


class Guide:
    """The page, with its two databases on this machine, and the variables that it exports."""

    def __init__(self, databases: dict[str, Postgres], directory: Path) -> None:
        self._databases = databases
        self._directory = directory
        self.exported: dict[str, str] = {}

    def follow(self, section: str, **environment: str) -> None:
        """Run the commands of a section, and compare their output."""
        tutorial = Tutorial(self._page(section), self._directory, {})
        tutorial.follow(**self.exported, **environment)
        self.exported = {"QUEEN_DATABASES": tutorial.environment["QUEEN_DATABASES"]}

    def _page(self, section: str) -> Path:
        text = sections()[section]
        for host, postgres in self._databases.items():
            text = text.replace(f"@{host}/", f"@127.0.0.1:{postgres.settings['port']}/")
        if "\n    ```" in text:  # Blocks in a list.
            text = re.sub(r"(?m)^    ", "", text)
        for varying, shown in VARYING.items():
            text = re.sub(varying, shown, text, flags=re.MULTILINE)
        page = self._directory / "page.md"
        page.write_text(text, "utf-8")
        return page


def sections() -> dict[str, str]:
    """The sections of the page, by heading."""
    return dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", TEXT, flags=re.DOTALL | re.MULTILINE))


@pytest.fixture
def hosts() -> Iterator[dict[str, Postgres]]:
    """The PostgreSQL servers of the page, by host."""
    with (
        Postgres(port=free_port(), in_memory=True) as one,
        Postgres(port=free_port(), in_memory=True) as two,
    ):
        for each in (one, two):
            each.execute("create role queen login")
            each.execute("create database queen owner queen")
        yield {"db1": one, "db2": two}


@pytest.fixture
async def servers(hosts: dict[str, Postgres]) -> AsyncIterator[list[Server]]:
    """Two servers that use the first database, as before the guide."""
    dsn = dsn_of(hosts["db1"])
    async with Server(dsn) as one, Server(dsn) as two:
        yield [one, two]


def dsn_of(postgres: Postgres) -> str:
    return f"postgresql://queen:secret@127.0.0.1:{postgres.settings['port']}/queen"


async def restart(servers: list[Server], databases: str) -> None:
    """Restart all servers with another list of databases, one after the other."""
    for server in servers:
        assert await server.stop() == 0
        server.environment.pop("DATABASE_URL", None)
        server.environment["QUEEN_DATABASES"] = databases
        await server.start()


@pytest.mark.timeout(120)  # It starts two PostgreSQL, six servers and a dozen commands.
async def test_a_tenant_moves_and_its_clients_see_no_error(
    hosts: dict[str, Postgres],
    servers: list[Server],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "queen.client")
    guide = Guide(hosts, tmp_path)
    urls = [each.base_url for each in servers]
    async with Queen(urls) as queen, Tenant.using(queen) as tenant:
        await queen.queue("emails").create()

        async def follow(section: str, **environment: str) -> None:
            environment["QUEEN_BASE_URL"] = urls[0]
            await asyncio.to_thread(guide.follow, section, **environment)
            await tenant.progress()

        await follow("Add a database")
        await restart(servers, guide.exported["QUEEN_DATABASES"])
        await follow("Move a tenant")
        assert await tenant.databases() == {"two"}
        await follow("See the load")
        await follow("Spread a queue")
        await follow("Limits of spread queues")
        await follow("Pin a hot partition")
        await follow("Enqueue in any database", DATABASE_URL=dsn_of(hosts["db2"]))
        await follow("Push to another database in a transaction")
        await follow("Remove a database")
        assert await tenant.databases() == {"main"}
        await restart(servers, guide.exported["QUEEN_DATABASES"])
        await tenant.progress()
        await tenant.stop()

    assert tenant.handled == tenant.pushed
    assert caplog.messages == []


def test_every_command_of_the_page_is_followed() -> None:
    with_commands = [name for name, text in sections().items() if re.search(r"```(sh|sql)", text)]
    assert tuple(each for each in with_commands if each not in ELSEWHERE) == FOLLOWED
    assert {*with_commands} >= ELSEWHERE
