"""Every command shows an example, and each example is a command."""

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from queen.cli.main import app


def commands(group: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:  # noqa: ANN401 - click's or typer's own
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


COMMANDS = dict(commands(typer.main.get_command(app), ()))


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_a_command_shows_an_example_that_is_one(path: tuple[str, ...]) -> None:
    command = COMMANDS[path]
    examples = re.findall(r"Example: (.+)", command.help or "")
    assert examples
    for example in examples:
        words = [word for word in shlex.split(example) if not re.match(r"[A-Z_]+=", word)]
        assert words[: len(path) + 1] == ["queen", *path]
        rest = words[len(path) + 1 :]
        if ">" in rest:
            rest = rest[: rest.index(">")]
        # Raises for options and arguments that the command does not have.
        command.make_context(path[-1], rest)
