"""`queen pipeline run`: run the pipelines of a file."""

import contextlib
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from queen import errors
from queen.cli.commands.data.engines import (
    Conf,
    Engine,
    EngineName,
    Master,
    place_of,
    read_yaml,
    runner_of,
    until_stopped,
)
from queen.cli.support import exit_codes
from queen.cli.support.client import Output
from queen.cli.support.environment import settings
from queen.cli.support.output import Format, say, show
from queen.cli.support.spark import needs_spark

if TYPE_CHECKING:
    from queen.pipelines.fleet.declaration import Declaration
    from queen.pipelines.fleet.fleet import Fleet

_COLUMNS = ["name", "kind", "state", "rows", "lag", "error"]


def run(
    file: Annotated[Path, typer.Argument(help="Pipelines as YAML.")],
    engine: EngineName = Engine.SPARK,
    master: Master = None,
    conf: Conf = None,
    output: Output = Format.TABLE,
) -> None:
    """
    Run many pipelines in one session, from a file.

    A pipeline that fails is retried, and the others continue. The exit code is 1 if any of them
    has failed at the end.

    Example: queen pipeline run fleet.yaml --engine local
    """
    with needs_spark():
        from queen.pipelines.fleet.declaration import declared
        from queen.pipelines.fleet.fleet import Fleet
        from queen.pipelines.lineage import Lineage
        from queen.pipelines.logs import RunLog

        place = place_of("archive", engine, master, conf)
        found, is_local = read_yaml(file), engine is Engine.LOCAL
        declaration = declared(found, dsn=_dsn(), is_local=is_local)
    _check(declaration)
    name = file.stem
    log = None if "QUEEN_CLIENT_LOG" in os.environ else RunLog(name)
    trace = None if log is None else log.write_trace
    with (
        until_stopped(name, log),
        Lineage(os.environ) as lineage,
        runner_of(place, name, log) as runner,
    ):
        fleet = Fleet(declaration, runner, print_line=say, lineage=lineage, trace=trace)
        # SIGTERM is an orderly end, so the summary and the exit code follow.
        with contextlib.suppress(SystemExit), fleet, _shown(fleet):
            fleet.run()
    say(fleet.summary())
    if output is not Format.TABLE:
        show([each.state()._asdict() for each in fleet.members.values()], _COLUMNS, output)
    if fleet.failed:
        if log is not None:
            say(f"The whole errors are in {log.path}")
        raise typer.Exit(exit_codes.FAILED)


def _dsn() -> str | None:
    """Return the database of the environment, if it has one."""
    return settings().dsn if "DATABASE_URL" in os.environ or "PG_HOST" in os.environ else None


def _check(declaration: "Declaration") -> None:
    """Check databases and queues of all pipelines. Raises InvalidOption with every error."""
    from queen.arrow.database import Connection, connect
    from queen.pipelines.runs import check_on

    connections: dict[str, Connection] = {}
    found: list[str] = []
    # A compaction may concern an archive that the same fleet creates.
    creates = {
        config.name or config.queue
        for entry in declaration.entries
        if entry.job.kind == "archive" and entry.queues is None
        for config in (entry.config_of(),)
    }
    try:
        for entry in declaration.entries:
            config = entry.config_of(None if entry.queues is None else "queue")
            if config.dsn not in connections:
                connections[config.dsn] = connect(config.dsn)
            if entry.queues is not None or (entry.job.kind == "compact" and config.name in creates):
                continue
            try:
                check_on(connections[config.dsn], entry.job, config)
            except (errors.NotFound, errors.InvalidOption) as error:
                found.append(f"{entry.path}: {error}")
    finally:
        for connection in connections.values():
            connection.close()
    if found:
        head = "1 error" if len(found) == 1 else f"{len(found)} errors"
        raise errors.InvalidOption("\n  ".join([f"the fleet has {head}:", *found]))


@contextmanager
def _shown(fleet: "Fleet") -> Generator[None]:
    """Show a table of all pipelines on a terminal. Elsewhere, the fleet prints lines."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    table = _Table(fleet)
    with Live(table, console=console, refresh_per_second=2, transient=True, redirect_stderr=True):
        yield


class _Table:
    """The pipelines with their states."""

    def __init__(self, fleet: "Fleet") -> None:
        self._fleet = fleet

    def __rich__(self) -> Any:  # noqa: ANN401 - a table of rich
        from rich.table import Table

        table = Table(box=None, pad_edge=False)
        for name in ("pipeline", "state", "rows", "lag", "error"):
            table.add_column(name, no_wrap=name != "error")
        for member in [*self._fleet.members.values()]:
            state = member.state()
            lag = "" if state.lag is None else f"{state.lag:,}"
            table.add_row(state.name, state.state, f"{state.rows:,}", lag, state.error or "")
        return table
