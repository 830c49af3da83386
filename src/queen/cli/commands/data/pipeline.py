"""`queen pipeline`: run and list Spark pipelines."""

import json
import os
import time
from pathlib import Path
from typing import Annotated, Any, Final, cast

import typer

from queen import errors
from queen.cli.command_table import group
from queen.cli.commands.data.engines import (
    Conf,
    Engine,
    EngineName,
    Master,
    Place,
    place_of,
    read_yaml,
    runner_of,
    until_stopped,
)
from queen.cli.commands.data.fleet import run as run_fleet
from queen.cli.commands.data.holds import archives_app, holds_app
from queen.cli.support import exit_codes
from queen.cli.support.client import Limit, Output, Server, run, some
from queen.cli.support.databases import Dsn, DsnFile, database, warn
from queen.cli.support.environment import settings
from queen.cli.support.output import Format, pairs_of, say, show, show_one
from queen.cli.support.spark import needs_spark

app = group("Run pipelines: archive, compact, recall, replay, rollup, transform, window.")
app.add_typer(holds_app, name="holds")
app.add_typer(archives_app, name="archives")
app.command("run")(run_fleet)

_COLUMNS: Final = ["name", "kind", "state", "stale", "lagMessages", "lagSeconds", "rowsPerSecond",
                   "rowsTotal", "updatedAt", "heldBackBy", "error"]  # fmt: skip


File = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="Options as YAML.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="An option from `queen pipeline options`. Repeatable.",
    ),
]
Name = Annotated[
    str | None,
    typer.Option(help="Name in `queen pipeline ls`. Default: the kind, and its name or queue."),
]
Every = Annotated[str | None, typer.Option(help="Repeat with this pause until stopped: 5m.")]


def _dsn(queue: object) -> str:
    """Return the database of this environment that has a queue, or the first one."""
    dsns = settings().dsns
    if len(dsns) == 1 or not isinstance(queue, str):
        return settings().dsn
    from queen.arrow.databases import Databases

    with Databases(dsns) as databases:
        return dsns[databases.place(queue)]


def _add(kind: str, help_: str, *, is_repeatable: bool = False) -> None:
    """Add the command of a pipeline. Only a pipeline that ends by itself has ``--every``."""

    def once(
        config: File = None,
        set_: Set = None,
        name: Name = None,
        engine: EngineName = Engine.SPARK,
        master: Master = None,
        conf: Conf = None,
        output: Output = Format.TABLE,
    ) -> None:
        _launch(kind, config, set_, name, place_of(kind, engine, master, conf), None, output)

    def repeated(
        config: File = None,
        set_: Set = None,
        name: Name = None,
        engine: EngineName = Engine.SPARK,
        master: Master = None,
        conf: Conf = None,
        every: Every = None,
        output: Output = Format.TABLE,
    ) -> None:
        _launch(kind, config, set_, name, place_of(kind, engine, master, conf), every, output)

    app.command(kind, help=help_)(repeated if is_repeatable else once)


_add(
    "archive",
    "Copy the log of a queue to a lake, exactly once, before retention can delete it.\n\n"
    "Example: queen pipeline archive --set queue=orders --set location=/lake/orders",
)
_add(
    "compact",
    "Merge small files of a lake into large ones, and expire old snapshots.\n\n"
    "Example: queen pipeline compact --set name=orders --every 1d",
    is_repeatable=True,
)
_add(
    "replay",
    "Push messages from the lake, or from another queue, to a queue.\n\n"
    "Example: queen pipeline replay --config replay.yaml",
)


@app.command("recall")
def recall(
    config: File = None, set_: Set = None, name: Name = None, output: Output = Format.TABLE
) -> None:
    """
    Bring archived messages back to their queue, so that consumer groups can seek to them.

    It runs in this process, without Spark and Java.

    Example: queen pipeline recall --set queue=orders --set start_at=2026-10-01
    """
    _launch("recall", config, set_, name, Place(Engine.LOCAL, "", {}), None, output)


_add(
    "rollup",
    "Update the history of queues by minute, hour and day.\n\n"
    "Example: queen pipeline rollup --set tasks=4 --every 1m",
    is_repeatable=True,
)
_add(
    "transform",
    "Transform a queue by a SQL statement into another queue.\n\n"
    "Example: queen pipeline transform --config large-orders.yaml",
)
_add(
    "window",
    "Aggregate a queue over time windows into another queue.\n\n"
    "Example: queen pipeline window --config per-minute.yaml --master spark://spark:7077",
)


@app.command("options")
def options(
    kind: Annotated[
        str,
        typer.Argument(help="archive, compact, recall, replay, rollup, transform or window."),
    ],
    output: Output = Format.TABLE,
) -> None:
    """
    List the options of a pipeline for --set and --config.

    Example: queen pipeline options rollup
    """
    kinds, _ = _pipelines()
    if kind not in kinds.MODULES:
        raise errors.BadRequest(
            f"pipeline {kind} does not exist; the pipelines are {[*kinds.MODULES]}"
        )
    rows = [each._asdict() for each in kinds.options(_job(kind))]
    show(rows, ["name", "type", "default", "help"], output)


@app.command("ls")
def list_(
    dsn: Dsn = None,
    dsn_file: DsnFile = None,
    limit: Limit = 1000,
    server: Server = None,
    output: Output = Format.TABLE,
) -> None:
    """
    List pipelines and their progress, including pipelines that ended.

    If you name a database, the command reads it instead of a server.

    Example: queen pipeline ls -o wide
    """
    if (where := database(dsn, dsn_file)) is None:
        rows: list[Any] = run(server, lambda q: some(q.admin.pipelines(), limit))
    else:
        _pipelines()
        from queen.pipelines.report import reports

        rows = reports(where, limit=limit)
    show(rows, _COLUMNS, output)


def _launch(
    kind: str,
    file: Path | None,
    sets: list[str] | None,
    name: str | None,
    place: Place,
    every: str | None,
    output: Format,
) -> None:
    """Run a pipeline, and show its progress."""
    from queen.cli.support.progress import Outcome, Progress
    from queen.client.durations import seconds_of
    from queen.pipelines.logs import RunLog

    kinds, runs = _pipelines()
    from queen.pipelines.lineage import Lineage

    pause = None if every is None else seconds_of(every)
    job = _job(kind)
    pairs = pairs_of(sets, "--set NAME=VALUE")
    options = {name: _value(name, value) for name, value in pairs.items()}
    given = {**_read(file), **options}
    dsn = None if "dsn" in given else _dsn(given.get("queue"))
    if "dsn" in options:
        warn(str(options["dsn"]), "--set dsn", "DATABASE_URL or the file of --config")
    if "read_dsn" in options:
        warn(str(options["read_dsn"]), "--set read_dsn", "the file of --config")
    config = kinds.configured(job, given, dsn=dsn)
    name = str(name or kinds.name_of(job, config))
    runs.check(job, config)
    log = None if "QUEEN_CLIENT_LOG" in os.environ else RunLog(name)
    with (
        until_stopped(name, log),
        Lineage(os.environ) as lineage,
        runner_of(place, name, log) as runner,
        # The sentence about the run comes after the last report, which has the lag at the end.
        Outcome() as outcome,
        runner.reporting(job, config, name) as report,
        Progress(report),
    ):
        outcome.report = report
        while True:
            with lineage.run(job, config, name):
                outcome.done = runner.run(job, config, report)
            if pause is None:
                break
            report.idle()
            time.sleep(pause)
        outcome.has_ended = True
    if report.held_back_by is not None:
        say(
            f"warning: messages after this position wait for {report.held_back_by}. End that"
            " transaction, then run the pipeline again."
        )
    if outcome.done is not None and output is not Format.TABLE:
        show_one(outcome.done, output)


def _pipelines() -> Any:  # noqa: ANN401 - two modules
    """Import the modules of pipelines, or explain how to install their packages."""
    with needs_spark():
        from queen.pipelines import kinds, runs
    return kinds, runs


def _job(kind: str) -> Any:  # noqa: ANN401 - a Job
    """Import the pipeline of a kind. Some import Spark."""
    kinds, _ = _pipelines()
    with needs_spark():
        return kinds.job(kind)


def _read(file: Path | None) -> dict[str, Any]:
    """Read options from a file."""
    if file is None:
        return {}
    found = read_yaml(file)
    if not isinstance(found, dict):
        raise exit_codes.FileTrouble(f"{file}: must contain option names and their values")
    return cast("dict[str, Any]", found)


def _value(name: str, text: str) -> Any:  # noqa: ANN401 - of JSON
    """Return the value of an option. A list or an object is JSON."""
    if text[:1] not in ("[", "{"):
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        raise errors.BadRequest(f"--set {name}={text}: it is not JSON: {error}") from error
