"""Databases of a cluster that return to an earlier state."""

from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from tests.cli.shell import Shell
from tests.cluster.operators.operations import begin, database_of, ended
from tests.support.postgres import Server as PostgresServer
from tests.support.server import Server


class Backups:
    """Copies of databases. The server is stopped while one is taken or restored."""

    def __init__(self, postgres: PostgresServer, server: Server, databases: dict[str, str]) -> None:
        self._postgres = postgres
        self._server = server
        self._databases = databases
        self._copies: dict[str, str] = {}

    async def take(self, name: str) -> None:
        await self._server.stop()
        self._copies[name] = f"test_{uuid4().hex}"
        self._postgres.create_database(self._copies[name], template=self._real(name))
        await self._server.start()

    async def restore(self, name: str) -> None:
        """Leaves the server stopped."""
        await self._server.stop()
        self.lose(name)
        self._postgres.create_database(self._real(name), template=self._copies[name])

    def lose(self, name: str) -> None:
        """Drop a database, also if the server uses it."""
        self._postgres.drop_database(self._real(name))

    def copy(self, name: str) -> str:
        """The address of the copy."""
        return self._postgres.dsn(self._copies[name])

    def drop(self) -> None:
        for each in self._copies.values():
            self._postgres.drop_database(each)

    def _real(self, name: str) -> str:
        return urlsplit(self._databases[name]).path[1:]


async def push(server: Server, queue: str, value: object, **item: Any) -> None:  # noqa: ANN401 - JSON
    reply = await server.post("/push", {"items": [{"queue": queue, "payload": value, **item}]})
    assert reply.status == 201, reply.body


async def taken(server: Server, path: str = "/pop", **query: Any) -> list[Any]:  # noqa: ANN401 - JSON
    """The messages that several pops return, acknowledged."""
    found: list[Any] = []
    for _ in range(6):  # Pops of several databases begin with another one each time.
        reply = await server.get(path, batch=100, partitions=10, autoAck="true", **query)
        if reply.status == 200:
            found += [each["data"] for each in reply.body["messages"]]
    return found


async def of_queue(server: Server, queue: str) -> list[Any]:
    return await taken(server, f"/pop/queue/{queue}")


async def move(server: Server, queue: str, *targets: str) -> None:
    for target in targets:
        await ended(server, await begin(server, queue=queue, to=target))
        assert await database_of(server, queue) == target


async def found(shell: Shell) -> dict[str, str]:
    """The problems that the doctor reports, by check."""
    ended = await shell.run("shard", "doctor", "-o", "json")
    return {each["check"]: each["found"] for each in ended.json if each["status"] != "ok"}


async def repair(shell: Shell) -> None:
    repaired = await shell.run("shard", "doctor", "--repair", "--yes", "-o", "json")
    assert repaired.code == 0, (repaired.out, repaired.err)
    assert await found(shell) == {}
