"""All commands, as typer defines them."""

from collections.abc import Iterator
from typing import Any

import typer

from queen.cli.main import app


def _commands(group: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:  # noqa: ANN401 - typer's types are private
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        if hasattr(command, "list_commands"):
            yield from _commands(command, (*path, name))
        else:
            yield (*path, name), command


ROOT: Any = typer.main.get_command(app)
COMMANDS: dict[tuple[str, ...], Any] = dict(_commands(ROOT, ()))
"""Commands by their name."""
