"""`queen debug`: collect diagnostics without secrets and payloads."""

import asyncio
import io
import json
import os
import platform
import sys
import tarfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from queen import errors
from queen.cli.command_table import group
from queen.cli.support import exit_codes
from queen.cli.support.client import Server, client
from queen.cli.support.databases import Dsn, DsnFile, databases
from queen.cli.support.output import plain_of, say
from queen.cli.support.redaction import Redaction

if TYPE_CHECKING:
    from queen import Queen

app = group("Collect diagnostics for a bug report.")

_MOST: Final = 1_000
_SECONDS: Final = 30.0
_READ_ME: Final = """\
Diagnostics that `queen debug bundle` collected. Secrets are masked. The files don't contain message
payloads, headers or traces, errors of consumers, or schemas of queues. They do contain the names of
queues, groups and schedules. Read the files before you share them. They are plain text.
"""


@app.command("bundle")
def bundle(
    file: Annotated[
        Path | None, typer.Option("-f", "--file", help="Output file. Default: named by the time.")
    ] = None,
    dsn: Dsn = None,
    dsn_file: DsnFile = None,
    server: Server = None,
) -> None:
    """
    Write an archive of diagnostics, without secrets and payloads.

    If a source is unreachable, its file contains the error.

    Example: queen debug bundle -f queen.tar.gz
    """
    from queen.cli.support.contexts import chosen

    where = databases(dsn, dsn_file)
    secrets = [each for each in (*where.values(), chosen(server).token) if each]
    redact = Redaction(more=secrets)
    texts = {name: redact(text) for name, text in asyncio.run(_gather(where, server)).items()}
    at = datetime.now(UTC)
    path = file or Path(f"queen-{at:%Y%m%dT%H%M%SZ}.tar.gz")
    try:
        _write(path, texts)
    except OSError as error:
        raise exit_codes.FileTrouble(f"cannot write {path}: {error.strerror}") from error
    typer.echo(str(path))
    say(f"{len(texts)} files; read them before you share them")


async def _gather(dsns: Mapping[str, str], server: str | None) -> dict[str, str]:
    from queen.cli.commands.doctor import examine

    texts = {"README.txt": _READ_ME, "environment.json": _json(_environment())}
    findings = await _tried(lambda: examine(dsns, server))
    texts["doctor.json"] = _json(
        findings if isinstance(findings, dict) else [each._asdict() for each in findings]
    )
    for database, dsn in dsns.items():
        name = "database" if len(dsns) == 1 else f"database-{database}"
        texts[f"{name}.json"] = _json(await _tried(lambda dsn=dsn: _of_database(dsn)))
    async with client(server) as queen:
        asked = _asked_of_server(queen)
        found = await asyncio.gather(*(_tried(each) for each in asked.values()))
        for name, answer in zip(asked, found, strict=True):
            texts[name] = answer if isinstance(answer, str) else _json(answer)
    return texts


async def _tried(ask: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401 - whatever was asked for
    """Return the result, or the error as text."""
    try:
        async with asyncio.timeout(_SECONDS):
            return await ask()
    except errors.QueenError as error:
        return {"unknown": str(error), "code": error.code}
    except Exception as error:
        return {"unknown": f"{type(error).__name__}: {error}"}


def _asked_of_server(queen: "Queen") -> dict[str, Callable[[], Awaitable[Any]]]:
    from queen.cli.support.client import some

    admin = queen.admin

    def listed(
        read: Callable[[], AsyncIterator[Any]], most: int = _MOST
    ) -> Callable[[], Awaitable[Any]]:
        async def asked() -> list[Any]:
            return [_without_schema(plain_of(each)) for each in await some(read(), most)]

        return asked

    return {
        "server/health.json": admin.health,
        "server/metrics.txt": admin.metrics,
        "server/config.json": _plain(admin.settings),
        "server/migrations.json": _plain(admin.migrations),
        "server/tables.json": _plain(admin.tables),
        "server/upkeep.json": _plain(admin.upkeep),
        "server/buffer.json": _plain(admin.buffer),
        "server/overview.json": _plain(admin.overview),
        "server/instances.json": listed(admin.instances),
        "server/queues.json": listed(admin.queues),
        "server/groups.json": listed(admin.groups),
        "server/operations.json": listed(admin.operations, 100),
        "server/schedules.json": listed(admin.schedules),
    }


def _plain(ask: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    async def asked() -> Any:  # noqa: ANN401 - a struct as JSON
        return plain_of(await ask())

    return asked


def _without_schema(row: dict[str, Any]) -> dict[str, Any]:
    """Remove the schema of a queue, which may contain examples."""
    options: dict[str, Any] = row.get("options") or {}
    if options.get("schema") is None:
        return row
    return {**row, "options": {**options, "schema": "left out"}}


async def _of_database(dsn: str) -> dict[str, Any]:
    from queen.store.checks.diagnosis import Diagnosis
    from queen.store.connection.database import Database
    from queen.store.connection.options import Connecting

    database = await Database.open(dsn, Connecting(connections=1))
    try:
        diagnosis = Diagnosis(database)
        oldest = await diagnosis.oldest_transaction()
        return {
            "state": dict(await diagnosis.state()),
            "settings": [dict(row) for row in await diagnosis.changed_settings()],
            "tables": [dict(row) for row in await diagnosis.tables()],
            "indexes": [dict(row) for row in await diagnosis.indexes()],
            "oldestTransaction": None if oldest is None else dict(oldest),
            "snapshots": [dict(row) for row in await diagnosis.snapshots()],
            "sessions": [dict(row) for row in await diagnosis.sessions()],
        }
    finally:
        await database.close()


def _environment() -> dict[str, Any]:
    from importlib.metadata import distributions

    from queen.cli.commands.health import version_here
    from queen.cli.support.environment import settings

    try:
        shown = {
            name: value
            for name, value, source in settings().shown(os.environ)
            if source != "default"
        }
    except errors.QueenError as error:
        shown = {"unknown": str(error)}
    return {
        "queen": version_here(),
        "python": sys.version,
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "at": datetime.now(UTC).isoformat(),
        "settings": shown,
        "packages": dict(sorted((each.name, each.version) for each in distributions())),
    }


def _json(value: Any) -> str:  # noqa: ANN401 - whatever JSON can hold
    return json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n"


def _write(path: Path, texts: dict[str, str]) -> None:
    """Write the archive, readable only by its owner because it contains names."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, text in texts.items():
            raw = text.encode("utf-8", "backslashreplace")
            entry = tarfile.TarInfo(f"queen-debug/{name}")
            entry.size, entry.mtime, entry.mode = len(raw), int(time.time()), 0o600
            archive.addfile(entry, io.BytesIO(raw))
