"""The plans and pages of calls in a small and in a large database."""

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple
from uuid import uuid4

import uvloop

from tests.sql.calls import Call
from tests.sql.plans.explained import Explained, Scan
from tests.support.postgres import Server

ROUNDS = 7
"""PostgreSQL may plan five executions separately before it uses a generic plan."""
SMALL_PAGES = 20
LARGE_TABLES = {
    *("consumers", "dead_letters", "dedup", "dedup_blocks", "dedup_rows", "deliveries"),
    *("partitions", "producers", "scheduled", "segments"),
}

QUEUE = """
select queen.configure('orders', null, null, '{}', false, null, null);
do $$
declare
  v_table regclass;
begin
  for v_table in
    select c.oid from pg_class c where c.relnamespace = 'queen'::regnamespace and c.relkind = 'r'
  loop
    -- Only the tests run analyze.
    execute format('alter table %s set (autovacuum_enabled = off)', v_table);
  end loop;
end
$$;
"""


class Profile(NamedTuple):
    """The scans of a call in all rounds, and the fewest pages of the last rounds."""

    scans: list[Scan]
    pages: int


class Growth(NamedTuple):
    """The same calls on a small and on a large database."""

    small: Mapping[str, Profile]
    large: Mapping[str, Profile]


Calls = Mapping[str, Callable[[int], Call]]


async def profile(database: Explained, calls: Calls) -> dict[str, Profile]:
    profiles: dict[str, Profile] = {}
    for name, call in calls.items():
        executions = [await database.call(call(number)) for number in range(1, ROUNDS + 1)]
        profiles[name] = Profile(
            [scan for execution in executions for scan in execution.scans],
            min(execution.pages for execution in executions[-2:]),
        )
    return profiles


def measure(
    server: Server, database: str, calls: Calls, *, is_analysed: bool
) -> dict[str, Profile]:
    """Profile the calls in a copy of the database, because they leave dead rows."""
    name = f"test_{uuid4().hex}"
    dsn = server.create_database(name, template=database)
    if is_analysed:
        server.execute("analyze", name)

    async def run() -> dict[str, Profile]:
        async with await Explained.connect(dsn) as database:
            return await profile(database, calls)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run())


def build(server: Server, template: str, statements: str) -> str:
    name = f"test_{uuid4().hex}"
    server.create_database(name, template=template)
    server.execute(QUEUE + statements, name)
    return name


def whole(growth: Growth) -> list[str]:
    """Scans that read a whole large table or index, by call."""
    return sorted(
        {
            f"{name}: {scan.kind} {scan.index} on {scan.table} by {scan.statement[:200]}"
            for profiles in growth
            for name, profile in profiles.items()
            for scan in profile.scans
            if scan.table in LARGE_TABLES and not scan.condition
        }
    )


def grown(growth: Growth) -> list[str]:
    """Calls that read more in the large database than deeper indexes explain."""
    return [
        f"{name}: {few.pages} pages, then {growth.large[name].pages}"
        for name, few in growth.small.items()
        if growth.large[name].pages > 2 * few.pages + SMALL_PAGES
    ]


def check(complaints: list[str]) -> None:
    assert not complaints, "\n".join(complaints)
