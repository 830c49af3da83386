"""T10. Waiting pops of many queues cost the databases next to nothing."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Final, NamedTuple
from uuid import uuid4

import pytest

from benchmarks.http_load import connections, request
from queen.store.cluster.joining import join
from tests.cluster.reports import report
from tests.support.postgres import Postgres
from tests.support.server import Server
from tests.system.costs.statements import Statements
from tests.system.costs.test_idle import quiet

_DATABASES: Final = ("main", "two", "three", "four")
_MOST_PER_SECOND: Final = 1.75
_POP: Final = b'{"wait":true,"timeout":600000}'


class Form(NamedTuple):
    """How many queues and waiting pops, and when and how long their statements are counted."""

    queues: int
    waiters: int
    pause_seconds: float
    """Before statements are counted."""
    seconds: float


_FULL: Final = Form(1_000, 10_000, 30.0, 60.0)
"""Contains what a server does once per minute."""
_SHORT: Final = Form(40, 200, 0.0, 20.0)
"""Ends before that, which would count too much in so short a time."""


@pytest.fixture(scope="module")
def apart() -> Iterator[dict[str, Postgres]]:
    """A PostgreSQL server per database, which counts statements."""
    with contextlib.ExitStack() as stack:
        counting = {"shared_preload_libraries": "pg_stat_statements", "shared_buffers": "32MB"}
        yield {name: stack.enter_context(Postgres(counting, in_memory=True)) for name in _DATABASES}


@pytest.mark.parametrize(
    "form",
    [
        pytest.param(_FULL, marks=[pytest.mark.slow, pytest.mark.timeout(600)], id="full"),
        pytest.param(_SHORT, id="short"),
    ],
)
async def test_waiting_pops_cost_each_database_next_to_nothing(
    apart: dict[str, Postgres], form: Form
) -> None:
    name = f"idle_{uuid4().hex}"
    databases = {each: postgres.create_database(name) for each, postgres in apart.items()}
    await join(databases)
    environment = {"QUEEN_MAX_WAITERS": "11000", "MAX_TIMEOUT": "600000"}
    async with Server(databases, environment) as server:
        items = [{"queue": f"q{n}", "payload": n} for n in range(form.queues)]
        for at in range(0, form.queues, 500):
            assert (await server.post("/push", {"items": items[at : at + 500]})).status == 201
        lines = await connections(server.port, form.waiters)
        answers = [
            line.ask(request(f"/pop/queue/q{n % form.queues}", _POP))
            for n, line in enumerate(lines)
        ]
        # The first pop of each queue gets its message, and waits again.
        await asyncio.gather(*answers[: form.queues])
        answers[: form.queues] = [
            line.ask(request(f"/pop/queue/q{n}", _POP))
            for n, line in enumerate(lines[: form.queues])
        ]
        rates = dict(zip(databases, await _rates(databases, form), strict=True))
        report("T10", queues=form.queues, waiters=form.waiters, statements_per_second=rates)
        assert not any(each.done() for each in answers)
        for line, answer in zip(lines, answers, strict=True):
            answer.cancel()
            line.transport.abort()
    assert max(rates.values()) < _MOST_PER_SECOND


async def _rates(databases: dict[str, str], form: Form) -> list[float]:
    """Statements per second of each database, after the searches of the waiters have ended."""
    async with contextlib.AsyncExitStack() as stack:
        counted = [
            await stack.enter_async_context(Statements.open(dsn)) for dsn in databases.values()
        ]
        for each in counted:
            await quiet(each)
        await asyncio.sleep(form.pause_seconds)
        rates = await asyncio.gather(*(each.per_second(form.seconds) for each in counted))
        for each, rate in zip(counted, rates, strict=True):
            if rate >= _MOST_PER_SECOND:
                print(await each.texts())
        return [round(rate, 2) for rate in rates]
