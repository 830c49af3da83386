"""`queen doctor`: find problems of the database and the servers, and suggest fixes."""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NoReturn
from urllib.parse import parse_qsl, urlsplit

import typer

from queen import errors
from queen.cli.doctor import findings
from queen.cli.doctor.findings import CRITICAL, OK, WARNING, Finding
from queen.cli.support.client import Output, Server, client
from queen.cli.support.databases import Dsn, DsnFile, databases
from queen.cli.support.output import Format, say, show
from queen.horizon import holder

if TYPE_CHECKING:
    from queen import Queen
    from queen.client.config import Config

_CODES: Final = {OK: 0, WARNING: 1, CRITICAL: 2}


def doctor(
    dsn: Dsn = None,
    dsn_file: DsnFile = None,
    server: Server = None,
    output: Output = Format.TABLE,
) -> None:
    """
    Check the database and the servers for problems. Exit codes: 0 ok, 1 warning, 2 critical.

    If you name a database, the command checks it. It checks a server if you name one, or if you
    don't name a database. With QUEEN_DATABASES it checks each database.

    Example: queen doctor --dsn-file /run/secrets/queen-dsn
    """
    conclude(asyncio.run(examine(databases(dsn, dsn_file), server)), output)


def conclude(found: list[Finding], output: Format) -> NoReturn:
    """Print findings, the worst first, and exit with the code of the worst."""
    found.sort(key=lambda each: -_CODES[each.status])
    rows = [each._asdict() for each in found]
    show(rows, ["status", "check", "found", "advice"], output)
    counts = Counter(each.status for each in found)
    say(", ".join(f"{counts[each]} {each}" for each in (CRITICAL, WARNING, OK) if counts[each]))
    raise typer.Exit(max(_CODES[each.status] for each in found))


async def examine(dsns: Mapping[str, str], server: str | None) -> list[Finding]:
    """Run every check that is possible here."""
    from queen.cli.support.contexts import chosen

    found: list[Finding] = []
    for name, dsn in dsns.items():
        found += named_by(name, await _of_database(dsn), dsns)
    if not dsns or chosen(server).source != "default":
        found += await _of_server(server)
    return found


def named_by(name: str, found: list[Finding], dsns: Mapping[str, str]) -> list[Finding]:
    """Add the name of the database to its findings, if there are several."""
    if len(dsns) == 1:
        return found
    return [each._replace(check=f"{name}: {each.check}") for each in found]


async def _of_database(dsn: str) -> list[Finding]:
    from queen.store.checks.diagnosis import Diagnosis
    from queen.store.connection.database import Database
    from queen.store.connection.options import Connecting
    from queen.store.connection.primary import named

    try:
        database = await Database.open(dsn, Connecting(connections=1))
    except errors.QueenError as error:
        return [Finding(CRITICAL, "database", str(error), error.remedy)]
    try:
        diagnosis = Diagnosis(database)
        await diagnosis.state()  # So that the next call measures the clock, not the connection.
        asked = time.time()
        state = await diagnosis.state()
        skew = state["now"].timestamp() - (asked + time.time()) / 2
        settings = await diagnosis.settings(list(findings.SETTINGS))
        oldest = await diagnosis.oldest_transaction()
        held = await diagnosis.horizon()
        return [
            findings.version(state["version"], state["version_text"]),
            *findings.settings(
                {name: (row["setting"], row["amount"]) for name, row in settings.items()}
            ),
            findings.encryption(named(dsn), _sslmode(dsn)),
            findings.database_user(state["user"], is_superuser=state["is_superuser"]),
            findings.connections(state["connections"], state["max_connections"]),
            findings.frozen(state["frozen_age"]),
            *findings.tables(tables := [dict(row) for row in await diagnosis.tables()]),
            *findings.audit_log(tables),
            *findings.bloat([dict(row) for row in await diagnosis.bloat()]),
            *findings.indexes([dict(row) for row in await diagnosis.indexes()]),
            *findings.table_options(await diagnosis.table_options()),
            findings.transaction(None if oldest is None else dict(oldest)),
            findings.horizon(held, None if held is None else holder(held)),
            findings.snapshots([dict(row) for row in await diagnosis.snapshots()]),
            findings.clock("database", skew),
            await _migrations(dsn),
        ]
    finally:
        await database.close()


async def _migrations(dsn: str) -> Finding:
    from queen.store.migrations import pending

    try:
        return findings.migrations(await pending(dsn))
    except errors.DatabaseUnsafe as error:
        return Finding(CRITICAL, "migrations", str(error), error.remedy)


def _sslmode(dsn: str) -> str:
    """Return the driver's TLS mode: from the URL, else from the environment, else its default."""
    query = dict(parse_qsl(urlsplit(dsn).query))
    return query.get("sslmode") or os.environ.get("PGSSLMODE") or "prefer"


async def _of_server(server: str | None) -> list[Finding]:
    async with client(server) as queen:
        url = queen.config.urls[0]
        try:
            return await _asked(queen)
        except errors.Forbidden:
            return [
                Finding(
                    WARNING, "server", f"{url} shows only public information", "use an admin key"
                )
            ]
        except errors.QueenError as error:
            return [Finding(CRITICAL, "server", str(error), "see `queen health`")]


async def _asked(queen: "Queen") -> list[Finding]:
    from msgspec.structs import asdict

    from queen.cli.commands.health import version_here

    processes = [each async for each in queen.admin.instances() if each.alive]
    known = await queen.admin.tables()
    oldest = known.oldest_transaction
    held = known.horizon
    modes = [
        mode
        for mode, of_pops in (("pushes", False), ("pops", True))
        if (await queen.admin.maintenance(of_pops=of_pops)).enabled
    ]
    return [
        Finding(OK, "server", queen.config.urls[0]),
        findings.instances(len(processes), sum(each.waiters for each in processes)),
        findings.releases(version_here(), [each.version for each in processes]),
        findings.maintenance(modes),
        *findings.tables(tables := [asdict(each) for each in known.tables]),
        *findings.audit_log(tables),
        findings.transaction(None if oldest is None else asdict(oldest)),
        findings.horizon(
            None if held is None else asdict(held), None if held is None else held.held_back_by
        ),
        await asyncio.to_thread(_clock, queen.config),
        findings.migrations((await queen.admin.migrations()).pending),
    ]


def _clock(config: "Config") -> Finding:
    """Compare clocks by the Date header of a response, which has whole seconds."""
    import urllib.request
    from email.utils import parsedate_to_datetime

    from queen.client.transport.tls import context

    asked = time.time()
    with urllib.request.urlopen(
        f"{config.urls[0]}/livez", timeout=5, context=context(config)
    ) as answer:
        date = answer.headers.get("date")
    if date is None:
        return Finding(OK, "clock of the server", "the response has no Date header")
    skew = parsedate_to_datetime(date).timestamp() + 0.5 - (asked + time.time()) / 2
    return findings.clock("server", skew, precision_seconds=0.6)
