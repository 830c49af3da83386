"""`queen config`: the settings and where they come from."""

import os
from typing import Annotated

import typer

from queen.cli.command_table import group
from queen.cli.support.client import Output
from queen.cli.support.environment import settings
from queen.cli.support.output import Format, show

app = group("Show the settings and where they come from.")


@app.command("show")
def show_config(
    effective: Annotated[
        bool, typer.Option("--effective", help="Also show settings that have their default.")
    ] = False,
    output: Output = Format.TABLE,
) -> None:
    """
    Show the settings that a server reads from this environment. Secrets are masked.

    Example: queen config show --effective
    """
    rows = [
        {"name": name, "value": value, "source": source}
        for name, value, source in settings().shown(os.environ)
        if effective or source != "default"
    ]
    if output is Format.TABLE:
        # The format of an environment file.
        for row in rows:
            typer.echo(f"{row['name']}={row['value']}  # {row['source']}")
        return
    show(rows, ["name", "value", "source"], output)
