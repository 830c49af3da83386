"""Executed calls with the plan of each inner statement and the pages that it read."""

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

import asyncpg
import msgspec

from queen import sql
from queen.store.connection.options import Connecting
from tests.sql.calls import Call, run

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

WATCH = """
load 'auto_explain';
set auto_explain.log_min_duration = 0;
set auto_explain.log_nested_statements = on;
set auto_explain.log_analyze = on;
set auto_explain.log_buffers = on;
set auto_explain.log_timing = off;
set auto_explain.log_format = json;
set client_min_messages = log;
"""


class Scan(msgspec.Struct, frozen=True):
    """One plan node that reads a table."""

    kind: str
    table: str
    index: str
    condition: str
    is_backward: bool
    statement: str


class Execution(msgspec.Struct, frozen=True):
    """One call: the scans of its statements, and the number of pages that it read."""

    scans: list[Scan]
    pages: int


class Explained:
    """
    A connection that returns the plans of its calls.

    Usage::

        async with await Explained.connect(dsn) as database:
            execution = await database.call(ack(lease))
    """

    def __init__(self, connection: "Connection") -> None:
        self.connection = connection
        self._plans: list[dict[str, Any]] = []

    @classmethod
    async def connect(cls, dsn: str) -> Self:
        connection = await asyncpg.connect(dsn, server_settings=Connecting().session)
        await connection.execute(WATCH)
        explained = cls(connection)
        connection.add_log_listener(explained.hear)
        return explained

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.connection.remove_log_listener(self.hear)
        await self.connection.close()

    def hear(self, connection: object, message: object) -> None:
        del connection
        text = str(getattr(message, "message", ""))
        if " plan:\n" in text:
            self._plans.append(json.loads(text.partition(" plan:\n")[2]))

    async def call(self, call: Call) -> Execution:
        """Run a call of `sql/calls` and roll it back, so that the next one finds the same rows."""
        transaction = self.connection.transaction()
        await transaction.start()
        self._plans.clear()
        try:
            await run(self.connection, call)
            # PostgreSQL logs the plan of the call itself when the next statement closes its portal.
            await self.connection.execute("show jit")
            plans, outermost = list(self._plans), self._plans[-1]["Plan"]
        finally:
            await transaction.rollback()
        return Execution(
            scans=[
                _scan(node, plan["Query Text"]) for plan in plans for node in _reads(plan["Plan"])
            ],
            pages=outermost["Shared Hit Blocks"] + outermost["Shared Read Blocks"],
        )


def _reads(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    # Only tables, not the catalogues that asyncpg reads when it first meets a type.
    if not node.get("Relation Name", "pg_").startswith("pg_") and "Scan" in node["Node Type"]:
        yield node
    for child in node.get("Plans", ()):
        yield from _reads(child)


def _scan(node: dict[str, Any], statement: str) -> Scan:
    # The index below a bitmap scan has built it, and the scan rechecks its condition.
    index = node.get("Index Name") or next(
        (child.get("Index Name", "") for child in node.get("Plans", ())), ""
    )
    conditions = (node.get(name) for name in ("Index Cond", "Recheck Cond", "TID Cond"))
    return Scan(
        kind=node["Node Type"],
        # Generations of one table.
        table=re.sub(r"^(dedup|dedup_blocks)_\d+", r"\1", node["Relation Name"]),
        index=re.sub(r"^(dedup|dedup_blocks)_\d+", r"\1", index),
        condition=next(filter(None, conditions), ""),
        is_backward=node.get("Scan Direction") == "Backward",
        statement=" ".join(statement.split()),
    )


async def pages_read(connection: "Connection", call: str, *arguments: object) -> int:
    """The number of pages that a call reads."""
    literals = {
        f"${at}": f"'{value}'"
        if isinstance(value, str)
        else "null"
        if value is None
        else str(value)
        for at, value in enumerate(arguments, 1)
    }
    text = re.sub(r"\$\d+", lambda found: literals[found[0]], sql.CALLS[call])
    plan = await connection.fetchval(f"explain (analyze, buffers, format json) {text}")
    top = json.loads(plan)[0]["Plan"]
    return top["Shared Hit Blocks"] + top["Shared Read Blocks"]
