"""The pytest plugin in a user's test suite."""

import tomllib
from importlib.metadata import entry_points

import pytest

from tests.support.postgres import Server
from tests.support.server import SOURCE

pytest_plugins = ["pytester"]

APP = """
from queen import Message, Queen

queen = Queen("http://nobody.invalid:1")
orders = queen.queue("orders")

@orders.group("billing").handler
async def bill(message: Message) -> None:
    if message.data["total"] < 0:
        raise ValueError("negative")
    await queen.queue("bills").push([{"data": message.data["total"] * 2}])

async def place(total: int) -> None:
    await orders.push([{"data": {"total": total}}])
"""

CONFIG = """
import pytest
import app

@pytest.fixture(autouse=True)
def connected(queen_server):
    queen_server.take(app.queen)
"""

TESTS = """
import asyncio
import app
from queen import SyncQueen
from queen.testing import dead_letters, drain, inline, pushed


async def test_what_was_pushed_can_be_seen(queen):
    await app.place(1)
    await app.place(2)
    assert await pushed(queen, "orders") == [{"total": 1}, {"total": 2}]


async def test_a_queue_that_nobody_made_yet_is_empty(queen):
    assert await pushed(queen, "never") == []
    assert await drain(app.queen) == 0


async def test_handlers_run_when_asked():
    await app.place(4)
    assert await drain(app.queen) == 1
    assert await pushed(app.queen, "bills") == [8]


async def test_handlers_run_at_push():
    with inline(app.queen):
        await app.place(4)
        assert await pushed(app.queen, "bills") == [8]


async def test_a_failure_retries_by_the_clock_and_becomes_a_dead_letter(queen, queen_clock):
    await app.orders.config({"retryLimit": 2, "retryDelay": 60_000}).create()
    await app.place(-1)
    assert await drain(app.queen) == 1
    assert await drain(app.queen) == 0
    for _ in range(2):
        queen_clock.advance("1h")
        assert await drain(app.queen) == 1
    (letter,) = await dead_letters(queen, "orders")
    assert letter["errorMessage"] == "ValueError: negative"
    assert letter["attempts"] == 3


async def test_the_database_is_this_tests_alone(queen):
    await queen.queue("orders").create()
    assert await pushed(queen, "orders") == []


async def test_a_real_consumer_waits_and_is_woken(queen):
    seen = []
    work = queen.queue("orders").limit(1).start(lambda message: seen.append(message.data))
    await queen.queue("orders").push([{"data": 1}])
    async with asyncio.timeout(10):
        await work
    assert seen == [1]


def test_a_test_without_a_loop(queen_server):
    with SyncQueen(transport=queen_server.transport) as queen:
        queen.queue("q").push({"data": 1})
        assert [message.data for message in queen.queue("q").pop()] == [1]
"""


@pytest.mark.timeout(180)
def test_a_users_tests_run(
    pytester: pytest.Pytester, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_QUEEN_DSN", postgres.dsn())
    monkeypatch.setenv("PYTHONPATH", str(SOURCE))
    pytester.makepyfile(app=APP, test_app=TESTS)
    pytester.makeconftest(CONFIG)
    pytester.makeini(
        "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
        "filterwarnings = error"
    )
    installed = {each.name for each in entry_points(group="pytest11")}
    plugin = "queen.testing.plugin"
    result = pytester.runpytest_subprocess(*([] if plugin in installed else ["-p", plugin]))
    result.assert_outcomes(passed=8)


def test_the_extra_for_tests_installs_an_async_test_runner() -> None:
    project = tomllib.loads((SOURCE.parent / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = project["optional-dependencies"]["test"]
    assert [each for each in wanted if each.startswith("pytest-asyncio")]
