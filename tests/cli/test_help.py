"""Every command shows an example, and each example is a command."""

import re
import shlex

import pytest

from queen.cli.commands import PLACES
from tests.cli.tree import COMMANDS, ROOT


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


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_what_destroys_asks_and_can_be_tried_dry(path: tuple[str, ...]) -> None:
    options = {word for each in COMMANDS[path].params for word in each.opts}
    is_destroying = path[-1] in ("delete", "purge", "redrive", "seek", "release", "revoke", "rm")
    assert ({"--yes", "--dry-run"} <= options) == is_destroying


def test_the_list_of_commands_says_what_each_says_of_itself() -> None:

    for name, place in PLACES.items():
        command = ROOT.get_command(None, name)
        told = str(command.help).strip()
        assert told.startswith(place.help.rstrip(".")[:20]), name
