"""Commands on the pages in docs/operate/deploy exist, with the options that they are given."""

import re
import shlex
from pathlib import Path

import pytest
from typer.exceptions import TyperException

from tests.cli.tree import COMMANDS, ROOT
from tests.deploy.files import PAGES

NAMES = "|".join(re.escape(name) for name in ROOT.list_commands(None))
COMMAND = re.compile(rf"\bqueen ((?:{NAMES})\b[^|;>)#]*)")
"""A command up to a pipe, a redirection, a comment, or the end of a substitution."""
FILES = sorted(PAGES.glob("*.md"))


def runs(page: Path) -> list[list[str]]:
    """The words of the commands in the page's code blocks, without `queen`."""
    text = page.read_text("utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [shlex.split(found) for line in lines for found in COMMAND.findall(line)]


def mentions(page: Path) -> list[list[str]]:
    """The words of the commands in the page's sentences, without `queen`."""
    return [each.split() for each in re.findall(r"`queen ([^`]+)`", page.read_text("utf-8"))]


def parse(words: list[str]) -> None:
    """Raise if the command does not exist, or does not accept these arguments."""
    length = 2 if tuple(words[:2]) in COMMANDS else 1
    command = COMMANDS[tuple(words[:length])]
    command.make_context(" ".join(words[:length]), words[length:])


@pytest.mark.parametrize("page", FILES, ids=lambda page: page.stem)
def test_commands_in_code_blocks_accept_their_arguments(page: Path) -> None:
    found = runs(page)
    assert found
    for each in found:
        parse(each)


@pytest.mark.parametrize("page", FILES, ids=lambda page: page.stem)
def test_commands_in_sentences_exist(page: Path) -> None:
    groups = {name[:1] for name in COMMANDS if len(name) == 2}
    for each in mentions(page):
        is_group = len(each) == 1 and tuple(each) in groups
        assert is_group or tuple(each[:1]) in COMMANDS or tuple(each[:2]) in COMMANDS, each


@pytest.mark.parametrize("words", ["health --wate 30s", "token create", "token make ops"])
def test_a_wrong_command_is_found(words: str) -> None:
    """Otherwise the tests above prove nothing."""
    with pytest.raises((KeyError, TyperException)):
        parse(words.split())
