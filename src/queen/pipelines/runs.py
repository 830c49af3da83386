"""Check and report a run of a pipeline, with any engine."""

# pyright: basic
from typing import Any

from psycopg.errors import InvalidSchemaName, UndefinedFunction, UndefinedTable

from queen import errors
from queen.arrow.database import Connection, connect
from queen.pipelines.kinds import SOURCES, TARGETS, Job, first_of
from queen.pipelines.report import Report
from queen.pipelines.report_writer import ReportWriter


def check(job: Job, config: Any) -> None:  # noqa: ANN401 - its Config
    """
    Check the database and the queues before the engine starts. Spark takes ten seconds or more.

    Raises DatabaseUnavailable, QueueNotFound, NotFound and BadSettings.
    """
    with connect(config.dsn) as connection:
        check_on(connection, job, config)


def check_on(connection: Connection, job: Job, config: Any) -> None:  # noqa: ANN401 - its Config
    """Check the queues of a pipeline on an open connection."""
    try:
        job.check(connection, config)
    except (UndefinedFunction, UndefinedTable, InvalidSchemaName) as error:
        raise errors.BadSettings(
            "this database has no current schema of Queen: run `queen migrate`, or correct"
            " DATABASE_URL"
        ) from error


def report_of(
    job: Job,
    config: Any,  # noqa: ANN401 - its Config
    name: str,
    *,
    ui_url: str | None = None,
    writer: ReportWriter | None = None,
) -> Report:
    """Begin the report of a run."""
    queues, target = first_of(config, SOURCES) or (), first_of(config, TARGETS)
    return Report(
        config.dsn,
        name=name,
        kind=job.kind,
        queues=[queues] if isinstance(queues, str) else [str(each) for each in queues],
        target=None if target is None else str(target),
        ui_url=ui_url,
        writer=writer,
    )
