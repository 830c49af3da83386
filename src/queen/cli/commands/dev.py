"""`queen dev`: start a database and a server with one command."""

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from queen.cli.dev.local_postgres import LocalPostgres
from queen.cli.support.databases import Dsn, DsnFile, database
from queen.settings import Settings

_BOX = """\
  +------------------------------------------------------------------+
  |  Not for production: no authentication, loopback only.            |
  +------------------------------------------------------------------+"""
_SNIPPETS = """
  With curl     curl -H 'Content-Type: application/json' {url}/api/v1/push \\
                  -d '{{"items":[{{"queue":"demo","payload":{{"hello":"world"}}}}]}}'
                curl '{url}/api/v1/pop/queue/demo?autoAck=true'
  Watch         queen top --server {url}{database}

  In Python, two files to copy:

# push.py: python push.py
import asyncio
from queen import Queen

async def main() -> None:
    async with Queen("{url}") as queen:
        await queen.queue("demo").push([{{"data": {{"hello": "world"}}}}])

asyncio.run(main())


# worker.py: python worker.py, until Ctrl-C
import asyncio
from queen import Message, Queen

queen = Queen("{url}")

@queen.queue("demo").handler
async def handle(message: Message) -> None:
    print(message.data, flush=True)

async def main() -> None:
    async with queen:
        await queen.run(handle_signals=True)

asyncio.run(main())
"""


def dev(
    dsn: Dsn = None,
    dsn_file: DsnFile = None,
    data_dir: Annotated[Path | None, typer.Option(help="Directory of the local database.")] = None,
    ephemeral: Annotated[
        bool, typer.Option("--ephemeral", help="Delete the local database at the end.")
    ] = False,
    port: Annotated[int | None, typer.Option(help="HTTP port. Default: PORT, or 6632.")] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Also create demo traffic, with failures.")
    ] = False,
) -> None:
    """
    Start a local server and database to try Queen. Not for production.

    If you don't name a database, the command starts a local PostgreSQL.

    Example: queen dev --ephemeral --port 6632
    """
    settings = _settings(database(dsn, dsn_file), port)
    signal.signal(signal.SIGTERM, _stop)  # Until the server installs its own handler.
    with contextlib.ExitStack() as stack:
        if settings.database_url is None and "PG_HOST" not in os.environ:
            postgres = stack.enter_context(LocalPostgres(None if ephemeral else _folder(data_dir)))
            where = f"PostgreSQL in {postgres.folder}" + (", ephemeral" if ephemeral else "")
            settings = _settings(postgres.dsn, port)
            dsn = postgres.dsn
        else:
            where = "the database that you named"
            dsn = None
        raise typer.Exit(_serve(settings, where, dsn, demo=demo))


def _stop(number: int, frame: object) -> NoReturn:
    """Shut down. Ignores a second signal."""
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(0)


def _settings(dsn: str | None, port: int | None) -> Settings:
    environ = {"NUM_WORKERS": "1", "LOG_FORMAT": "console", "LOG_LEVEL": "warning", **os.environ}
    if dsn is not None:
        environ["DATABASE_URL"] = dsn
    if port is not None:
        environ["PORT"] = str(port)
    return Settings.from_environ(environ)


def _folder(given: Path | None) -> Path:
    if given is not None:
        return given.expanduser().resolve()
    if os.geteuid() == 0:
        # The account that runs PostgreSQL can't read root's home directory.
        return Path("/var/lib/queen-dev")
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / "queen" / "dev"


def _serve(settings: Settings, where: str, dsn: str | None, *, demo: bool) -> int:
    import uvloop

    from queen.server import logs
    from queen.server.process.serve import bind, serve_here

    logs.configure(settings)
    listener = bind(settings)
    url = f"http://localhost:{listener.getsockname()[1]}"
    # For pipelines and migrations. If you named the database yourself, you have its password.
    database = "" if dsn is None else f"\n  Database      export DATABASE_URL='{dsn}'"

    tasks: list[asyncio.Task[None]] = []  # The loop keeps only weak references to tasks.

    def announce() -> None:
        print(f"\n  Queen is ready at {url}, on {where}.", file=sys.stderr)
        print(_BOX, file=sys.stderr)
        print(_SNIPPETS.format(url=url, database=database), file=sys.stderr, flush=True)
        if demo:
            from queen.cli.dev.demo import traffic

            tasks.append(asyncio.get_running_loop().create_task(traffic(url)))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return 0 if runner.run(serve_here(settings, listener, ready=announce)) else 3
