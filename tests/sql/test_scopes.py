"""Lists filter by a caller's scopes in SQL, with the same result as in Python."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import asyncpg
import pytest

from queen.server.auth.permissions import ANYBODY, Caller, Permission
from queen.wire.access import Scope

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

NAMES = ["", "a", "b", "ab", "a.b", "a%b", "a_b", "axb", "a\\b", "a*b", "%", "_", "*", "ä", "aab"]
PATTERNS = [
    *(None, "a", "*", "a*", "*b", "a*b", "a**b", "*a*b*", "%", "_", "a%b", "a_b", "a\\b", "a\\*"),
    *("\\", "\\%", "ä", "a\nb", "*\n*", "a\0", "\ud800", "a.*"),
]


@pytest.fixture
async def connection(dsn: str) -> AsyncIterator["Connection"]:
    connection = await asyncpg.connect(dsn)
    yield connection
    await connection.close()


def caller_of(*scopes: Scope) -> Caller:
    return Caller(name="t", permissions=frozenset({Permission.BROWSE}), scopes=scopes)


@pytest.mark.parametrize("namespace", PATTERNS, ids=repr)
async def test_sql_and_python_agree_on_the_queues_of_a_scope(
    connection: "Connection", namespace: str | None
) -> None:
    for queue in PATTERNS:
        if queue is None and namespace is None:
            continue  # A scope has at least one of them.
        caller = caller_of(Scope(queue=queue, namespace=namespace))
        rows = await connection.fetch(
            "select q, n, queen.sees(q, n, $3) as sees"
            " from unnest($1::text[], $2::text[]) k (q, n)",
            [q for q in NAMES for _ in NAMES],
            NAMES * len(NAMES),
            caller.patterns,
        )
        wrong = [row for row in rows if row["sees"] != caller.sees(row["q"], row["n"])]
        assert wrong == [], (queue, namespace)


async def test_a_missing_queue_has_no_namespace(connection: "Connection") -> None:
    for scope, is_seen in ((Scope(queue="a*"), True), (Scope(namespace="a*"), False)):
        sees = "select queen.sees('ab', null, $1)"
        assert await connection.fetchval(sees, caller_of(scope).patterns) == is_seen


async def test_without_scopes_every_queue_is_visible_and_with_an_empty_list_none(
    connection: "Connection",
) -> None:
    sees = "select queen.sees('a', 'b', $1)"
    assert ANYBODY.patterns is None
    assert await connection.fetchval(sees, None) is True
    assert await connection.fetchval(sees, caller_of().patterns) is False


async def test_the_filter_costs_a_caller_without_scopes_no_function_call(
    connection: "Connection",
) -> None:
    """PostgreSQL inlines it, and the test for null comes first."""
    plan = await connection.fetch(
        "explain (verbose) select id from queen.queues where queen.sees(name, namespace, $1)", None
    )
    text = "\n".join(row[0] for row in plan)
    assert "sees" not in text
    assert "~~" not in text
