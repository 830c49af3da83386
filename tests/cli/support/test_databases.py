"""Which database a command uses, and how to keep its password off the command line."""

from pathlib import Path
from uuid import uuid4

import pytest

from queen.cli.doctor import findings
from queen.cli.doctor.findings import OK, WARNING
from queen.store.migrations import make_roles
from tests.cli.shell import Shell
from tests.cli.tree import COMMANDS as ALL

PASSWORD = "correct-horse"
WARNED = "can read the password in --dsn. Use --dsn-file FILE or"


def with_password(dsn: str) -> str:
    return dsn.replace("//postgres@", f"//postgres:{PASSWORD}@")


COMMANDS = {
    "doctor": ("doctor",),
    "backup-check": ("backup-check",),
    "debug bundle": ("debug", "bundle", "-f"),
    "relay": ("relay", "--init"),
    "pipeline ls": ("pipeline", "ls"),
    "pipeline holds ls": ("pipeline", "holds", "ls"),
    "pipeline holds release": ("pipeline", "holds", "release", "orders", "none", "--yes"),
    "pipeline archives ls": ("pipeline", "archives", "ls"),
    "pipeline archives drop": ("pipeline", "archives", "drop", "none", "--yes"),
    "stream rewind": ("stream", "rewind", "no-such-checkpoint"),
}


@pytest.mark.parametrize("command", COMMANDS)
async def test_a_password_on_the_command_line_causes_a_warning_and_a_file_does_not(
    dsn: str, shell: Shell, tmp_path: Path, command: str
) -> None:
    words = COMMANDS[command]
    if command == "debug bundle":
        words = (*words, str(tmp_path / f"{uuid4().hex}.tar.gz"))
    file = tmp_path / "dsn"
    file.write_text(with_password(dsn) + "\n")

    by_file = await shell.run(*words, "--dsn-file", str(file))
    if command == "debug bundle":
        words = (*words[:-1], str(tmp_path / f"{uuid4().hex}.tar.gz"))
    by_argument = await shell.run(*words, "--dsn", with_password(dsn))
    assert WARNED in by_argument.err
    assert "warning: other users" not in by_file.err
    assert by_file.code == by_argument.code
    assert PASSWORD not in by_file.err + by_file.out + by_argument.err + by_argument.out


def test_every_command_with_a_dsn_accepts_a_file() -> None:
    options = {
        " ".join(name): {word for each in command.params for word in each.opts}
        for name, command in ALL.items()
    }
    with_dsn = {name for name, words in options.items() if "--dsn" in words}
    assert set(COMMANDS) | {"dev"} == with_dsn
    assert with_dsn == {name for name, words in options.items() if "--dsn-file" in words}


async def test_stdin_works_as_a_file(dsn: str, shell: Shell) -> None:
    ended = await shell.run("backup-check", "--dsn-file", "-", given=with_password(dsn))
    assert ended.code in (0, 1)
    empty = await shell.run("backup-check", "--dsn-file", "-")
    assert (empty.code, empty.err) == (2, "queen: stdin is empty\n")
    both = await shell.run("doctor", "--dsn", dsn, "--dsn-file", "-", given=dsn)
    assert both.code == 2
    missing = await shell.run("doctor", "--dsn-file", "no-such-file")
    assert (missing.code, "cannot read no-such-file" in missing.err) == (1, True)


async def test_a_dsn_without_a_password_causes_no_warning(dsn: str, shell: Shell) -> None:
    ended = await shell.run("doctor", "--dsn", dsn, QUEEN_BASE_URL="")
    assert "warning: other users" not in ended.err


async def test_tls_settings_apply_to_a_dsn_on_the_command_line(dsn: str, shell: Shell) -> None:
    ended = await shell.run("doctor", "--dsn", dsn, PG_SSLMODE="none", QUEEN_BASE_URL="")
    assert (ended.code, "PG_SSLMODE" in ended.err) == (1, True)


async def test_doctor_warns_about_a_superuser(dsn: str, shell: Shell) -> None:
    await make_roles(dsn)
    ended = await shell.run("doctor", "--dsn", dsn, "-o", "json", QUEEN_BASE_URL="")
    found = {each["check"]: each["status"] for each in ended.json}
    assert (ended.code, found["database user"]) == (1, WARNING)


@pytest.mark.parametrize(
    ("hosts", "mode", "status"),
    [
        (["/run/postgresql"], "prefer", OK),
        (["localhost", "127.0.0.1", "::1", ""], "disable", OK),
        (["db.example"], "prefer", WARNING),
        (["db.example"], "require", WARNING),
        (["db.example"], "verify-ca", WARNING),
        (["db.example"], "verify-full", OK),
        (["127.0.0.1", "10.0.0.7"], "prefer", WARNING),
    ],
)
def test_doctor_warns_about_unencrypted_connections(
    hosts: list[str], mode: str, status: str
) -> None:
    assert findings.encryption(hosts, mode).status == status
