"""Every command has an example, and each example is a valid command."""

import os
import re
import shlex
import subprocess
import sys

import pytest

from queen.cli.command_table import PLACES
from tests.cli.commands import SOURCE
from tests.cli.tree import COMMANDS, ROOT


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_a_command_has_a_valid_example(path: tuple[str, ...]) -> None:
    command = COMMANDS[path]
    examples = re.findall(r"Example: (.+)", command.help or "")
    assert examples
    for example in examples:
        words = [word for word in shlex.split(example) if not re.match(r"[A-Z_]+=", word)]
        assert words[: len(path) + 1] == ["queen", *path]
        rest = words[len(path) + 1 :]
        end = next((at for at, word in enumerate(rest) if word in (">", "|")), len(rest))
        # Raises for options and arguments that the command does not have.
        command.make_context(path[-1], rest[:end])


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_commands_with_large_effects_ask_and_have_a_dry_run(path: tuple[str, ...]) -> None:
    options = {word for each in COMMANDS[path].params for word in each.opts}
    asking = ("apply", "delete", "purge", "rebalance", "redrive", "seek", "release", "revoke")
    assert ({"--yes", "--dry-run"} <= options) == (path[-1] in (*asking, "rm", "drop"))


def test_the_list_of_commands_repeats_the_help_of_each() -> None:

    for name, place in PLACES.items():
        command = ROOT.get_command(None, name)
        told = str(command.help).strip()
        assert told.startswith(place.help.rstrip(".")[:20]), name


def test_commands_with_own_exit_codes_are_listed_in_the_help_and_on_the_page() -> None:
    own = sorted(" ".join(path) for path, each in COMMANDS.items() if "Exit codes: 0" in each.help)
    listed = f"{', '.join(own[:-1])} and {own[-1]}"
    page = (SOURCE.parent / "docs" / "reference" / "cli.md").read_text("utf-8")

    assert own == ["backup-check", "doctor", "health", "shard doctor"]
    assert f"{listed}: 0 ok, 1 warning, 2 critical." in " ".join(ROOT.help.split())
    assert f"`{'`, `'.join(own[:-1])}` and `{own[-1]}` exit with 0 for ok, 1 " in page


@pytest.mark.parametrize(
    ("missing", "arguments", "extra"),
    [
        ("typer", ["--help"], "queenmq[cli]"),
        ("asyncpg", ["migrate", "status"], "queenmq[server]"),
        ("uvloop", ["serve"], "queenmq[server]"),
        ("pyspark", ["pipeline", "rollup"], "queenmq[pyspark]"),
        ("psycopg", ["pipeline", "ls", "--dsn", "postgresql://"], "queenmq[spark]"),
    ],
)
def test_a_missing_extra_is_named_with_the_install_command(
    missing: str, arguments: list[str], extra: str
) -> None:
    code = (
        f"import sys; sys.modules[{missing!r}] = None; sys.argv = ['queen', *{arguments!r}]\n"
        "from queen.__main__ import main; main()"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 1
    assert f"pip install '{extra}'" in answer.stderr
    assert len(answer.stderr.splitlines()) == 1


def test_a_typo_in_a_command_gets_a_hint() -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "queen", "queu", "ls"],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 2
    assert "command queu does not exist; did you mean queue?" in answer.stderr
