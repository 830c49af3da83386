"""The statements of the SQL quickstart run, and have the result that the page shows."""

import re
from pathlib import Path

import asyncpg

from queen import Queen, outbox
from tests.support.server import Server

PAGE = (Path(__file__).parents[2] / "docs" / "start" / "sql.md").read_text("utf-8")


async def test_only_the_committed_messages_arrive(process: Server) -> None:
    (statements,) = re.findall(r"<<'SQL'\n(.*?)^SQL$", PAGE, flags=re.DOTALL | re.MULTILINE)
    (query,) = re.findall(r"-c '(.*?) = '\"'orders'\"$", PAGE, flags=re.MULTILINE)
    connection = await asyncpg.connect(process.environment["DATABASE_URL"])
    await connection.execute(statements)
    async with connection.transaction():
        await outbox.push(connection, "orders", [{"data": {"id": 9}}], partition="customer-42")
    found: list[int] = []
    async with Queen(process.base_url) as queen:
        orders = queen.queue("orders").batch(10).wait(True).auto_ack(True)
        while len(found) < 2:
            found += [message.data["id"] for message in await orders.pop()]

    rows = await connection.fetch(f"{query} = 'orders' order by 2")
    await connection.close()
    assert found == [7, 9]
    assert [row["offset"] for row in rows] == [0, 1]
    first = rows[0]
    assert f" {first['partition']} |      {first['offset']} | {first['payload']}" in PAGE
