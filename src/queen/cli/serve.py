"""`queen serve`: HTTP until stopped."""

import typer

from queen.cli.environment import settings


def serve() -> None:
    """
    Serve HTTP until stopped. Settings come from the environment.

    Example: PG_HOST=localhost PORT=6632 queen serve
    """
    from queen.server.serve import serve as run

    raise typer.Exit(run(settings()))
