"""`queen dev`: start a database and a server with one command."""

import asyncio
import contextlib
import importlib
import os
import signal
import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from queen import errors
from queen.cli.dev.local_postgres import LocalPostgres
from queen.cli.support.databases import Dsn, DsnFile, database
from queen.settings import Settings

_COLUMNS = 80
_ADDRESSES = """
  Dashboard      {url}
  API reference  {url}/docs
  Database       {where}
"""
_DEMO = """\
  Demo           history before {time} is generated, not measured
"""
_OPEN = ": no authentication, loopback only"
_INSECURE = ": no authentication, and QUEEN_INSECURE is on"
_KEYS = """
  Requests need an API key or token. Set QUEEN_TOKEN to yours. To create a key:
  queen token create NAME --role admin
"""
_EXAMPLES = """
  Not for production{reason}. Stop with Ctrl-C.
{keys}
  Push a message and pop it, in another terminal:

curl {header}-H 'Content-Type: application/json' {url}/api/v1/push \\
  -d '{{"items":[{{"queue":"demo","payload":{{"hello":"world"}}}}]}}'
curl {header}'{url}/api/v1/pop/queue/demo?autoAck=true'

  Watch the queues:

queen top --server {url}
"""
_HEADER = """-H "Authorization: Bearer $QUEEN_TOKEN" \\
  """
_DATABASE = """
  Connect to the database:

{command}
"""
_MORE = """
  Examples in Python: {url}/start
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
        bool, typer.Option("--demo", help="Also simulate a busy shop, with a day of history.")
    ] = False,
) -> None:
    """
    Start a local server and database to try Queen. Not for production.

    If you don't name a database, the command starts a local PostgreSQL.

    Example: queen dev --ephemeral --port 6632
    """
    settings = _settings(database(dsn, dsn_file), port, demo=demo)
    if demo and settings.auth:
        raise errors.BadSettings(
            "--demo sends requests without an API key, but QUEEN_AUTH is set. Unset QUEEN_AUTH, or "
            "omit --demo."
        )
    signal.signal(signal.SIGTERM, _stop)  # Until the server installs its own handler.
    with contextlib.ExitStack() as stack:
        if settings.database_url is None and "PG_HOST" not in os.environ:
            postgres = stack.enter_context(LocalPostgres(None if ephemeral else _folder(data_dir)))
            where = f"PostgreSQL in {postgres.folder}" + (", ephemeral" if ephemeral else "")
            settings = _settings(postgres.dsn, port, demo=demo)
            dsn = postgres.dsn
        else:
            where = "the one that you named"
            dsn = None
        raise typer.Exit(_serve(settings, where, dsn, demo=demo))


def _stop(number: int, frame: object) -> NoReturn:
    """Shut down. Ignores a second signal."""
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(0)


def _settings(dsn: str | None, port: int | None, *, demo: bool) -> Settings:
    environ = {"NUM_WORKERS": "1", "LOG_FORMAT": "console", "LOG_LEVEL": "warning"}
    if demo:
        # The demo pushes millions of messages per hour and deletes them after some minutes.
        # Its load causes warnings, which would hide the addresses.
        environ |= {
            "QUEEN_ENVIRONMENT": "demo",
            "RETENTION_INTERVAL": "30000",
            "LOG_LEVEL": "error",
        }
    environ |= os.environ
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

    if demo:
        # Loaded before the server starts, because its first requests would wait for it.
        importlib.import_module("queen.cli.dev.demo")
    logs.configure(settings)
    listener = bind(settings)
    url = f"http://localhost:{listener.getsockname()[1]}"
    tasks: list[asyncio.Task[None]] = []  # The loop keeps only weak references to tasks.

    def announce() -> None:
        print(announcement(url, where, dsn, settings, demo=demo), file=sys.stderr, flush=True)

    def start() -> None:
        if not demo:
            announce()
            return
        from queen.cli.dev import demo as demo_load

        # Announced when the dashboard has data to show.
        run = demo_load.run(url, settings.dsn, announce, is_pooled=settings.db_pgbouncer)
        tasks.append(task := asyncio.get_running_loop().create_task(run))
        task.add_done_callback(_report)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return 0 if runner.run(serve_here(settings, listener, ready=start)) else 3


def _report(demo: "asyncio.Task[None]") -> None:
    """Print why the demo ended, unless it was stopped."""
    if not demo.cancelled() and (error := demo.exception()) is not None:
        print(f"queen: the demo stopped: {error!r}", file=sys.stderr, flush=True)


def announcement(url: str, where: str, dsn: str | None, settings: Settings, *, demo: bool) -> str:
    """Return the text that `queen dev` prints. ``dsn``: None if you named the database."""
    text = _ADDRESSES.format(url=url, where=where)
    if demo:
        text += _DEMO.format(time=f"{datetime.now():%H:%M}")
    reason = "" if settings.auth else _INSECURE if settings.insecure else _OPEN
    keys, header = (_KEYS, _HEADER) if settings.auth else ("", "")
    text += _EXAMPLES.format(url=url, reason=reason, keys=keys, header=header)
    if dsn is not None:
        # For pipelines and migrations. If you named the database yourself, you have its password.
        text += _DATABASE.format(command=_export(dsn))
    return text + _MORE.format(url=url)


def _export(dsn: str) -> str:
    """Return a command that sets DATABASE_URL, on two lines if one is too narrow."""
    command = f"export DATABASE_URL='{dsn}'"
    if len(command) <= _COLUMNS:
        return command
    base, _, query = dsn.partition("?")
    return f"export DATABASE_URL='{base}'\\\n'?{query}'"
