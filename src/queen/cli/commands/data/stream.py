"""`queen stream`: repair the checkpoints of Spark streams."""

from typing import Annotated

import typer

from queen.cli.command_table import group
from queen.cli.support.client import Output
from queen.cli.support.databases import Dsn, DsnFile, database
from queen.cli.support.environment import settings
from queen.cli.support.output import Format, say, show_one
from queen.cli.support.spark import needs_spark

app = group("Repair the checkpoints of Spark streams.")


@app.command("rewind")
def rewind(
    checkpoint: Annotated[str, typer.Argument(help="Directory or URI of the checkpoint.")],
    app_id: Annotated[
        str | None,
        typer.Option("--app-id", help="The txnAppId of a queue sink. Default: the query's id."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the effect without making changes.")
    ] = False,
    dsn: Dsn = None,
    dsn_file: DsnFile = None,
    output: Output = Format.TABLE,
) -> None:
    """
    Move a stream back after a failover or a restore that lost transactions.

    Stop the stream first. Messages after the last batch that is kept are read again, so a sink
    that is not a queue of this database may get some of them twice.

    Example: queen stream rewind /checkpoints/orders --dry-run
    """
    with needs_spark():
        from queen.spark.format.checkpoint import rewind as rewind_checkpoint
    found = rewind_checkpoint(
        database(dsn, dsn_file) or settings().dsn, checkpoint, app_id=app_id, is_dry=dry_run
    )
    if found.kept == found.batch:
        say("The database has everything that the stream has read: nothing to do.")
    elif dry_run:
        say(f"The stream would continue after batch {found.kept} of {found.batch}.")
    else:
        say(f"The stream continues after batch {found.kept} of {found.batch}.")
    show_one(found._asdict(), output)
