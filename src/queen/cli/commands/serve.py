"""`queen serve`: run the HTTP server."""

import typer

from queen.cli.support.environment import settings


def serve() -> None:
    """
    Serve HTTP until stopped. Reads its settings from the environment.

    Example: PG_HOST=localhost PORT=6632 queen serve
    """
    from queen.server.process.serve import serve as run

    raise typer.Exit(run(settings()))
