"""The steps of docs/operate/deploy/managed-postgresql.md work without a superuser."""

import asyncio
import re
from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.deploy.files import fence, queen
from tests.support.postgres import Server as Database
from tests.support.server import Server


@pytest.fixture
def names(postgres: Database) -> Iterator[dict[str, str]]:
    """Names of roles and the database for this test, because tests share a server."""
    mark = uuid4().hex[:8]
    found = {
        each: f"{each}_{mark}" for each in ("provider_admin", "queen_migrator", "queen_server")
    }
    found["database"] = f"managed_{mark}"
    yield found
    postgres.drop_database(found["database"])


def statements(block: str, names: dict[str, str]) -> list[str]:
    """The statements of the page, with this test's names."""
    text = block.replace("database queen ", f"database {names['database']} ").replace("…", "secret")
    for role in ("queen_migrator", "queen_server"):
        text = text.replace(role, names[role])
    return [each.strip() for each in text.split(";") if each.strip()]


async def test_a_server_runs_on_a_database_without_a_superuser(
    postgres: Database, names: dict[str, str]
) -> None:
    # As providers give it to you: may create roles and databases, but is not a superuser.
    admin = names["provider_admin"]
    postgres.execute(f"create role {admin} login createrole createdb")
    as_admin = Database(postgres.dsn().replace("//postgres@", f"//{admin}@"))
    for each in statements(fence("managed-postgresql.md", "sql", "create database"), names):
        as_admin.execute(each)

    owner = postgres.dsn(names["database"]).replace("//postgres@", f"//{names['queen_migrator']}@")
    for command in re.findall(
        r"^queen (migrate \w+)$", fence("managed-postgresql.md", "sh", "migrate up"), re.MULTILINE
    ):
        ended = await asyncio.to_thread(queen, *command.split(), DATABASE_URL=owner)
        assert ended.code == 0, ended.err
    for each in statements(fence("managed-postgresql.md", "sql", "in role queen_app"), names):
        Database(owner).execute(each, database=names["database"])

    served = owner.replace(names["queen_migrator"], names["queen_server"])
    async with Server(served, {"QUEEN_AUTO_MIGRATE": "false"}) as server:
        pushed = await server.post("/push", {"items": [{"queue": "orders", "payload": 1}]})
        assert pushed.status == 201
        assert (await server.get("/pop/queue/orders")).status == 200
    assert postgres.value(f"select rolsuper from pg_roles where rolname = '{admin}'") is False
