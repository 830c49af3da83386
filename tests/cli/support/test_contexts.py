"""`queen context`: which server a command uses, and who can read its key."""

import json
from pathlib import Path

from tests.cli.commands import queen
from tests.cli.shell import Shell
from tests.support.callers import KEYS
from tests.support.server import Server


async def test_flags_override_environment_override_context_override_default(
    shell: Shell, server: Server
) -> None:
    nowhere = "http://127.0.0.1:1"
    await shell.run("context", "add", "here", "--server", server.base_url)
    await shell.run("context", "add", "nowhere", "--server", nowhere)
    await shell.run("context", "use", "nowhere")

    async def code(*arguments: str, **environment: str) -> int:
        told = {"QUEEN_BASE_URL": "", **environment}
        return (await shell.run(*arguments, **told)).code

    assert await code("queue", "ls") == 5
    assert await code("queue", "ls", QUEEN_CONTEXT="here") == 0
    assert await code("queue", "ls", QUEEN_BASE_URL=server.base_url) == 0
    assert await code("queue", "ls", QUEEN_BASE_URL=nowhere, QUEEN_CONTEXT="here") == 5
    assert await code("--context", "here", "queue", "ls", QUEEN_BASE_URL=nowhere) == 0
    assert await code("--server", server.base_url, "queue", "ls", QUEEN_BASE_URL=nowhere) == 0
    assert await code("queue", "ls", "--server", server.base_url, QUEEN_BASE_URL=nowhere) == 0
    assert await code("--context", "none", "queue", "ls") == 3
    assert await code("health") == 2


async def test_contexts_are_added_listed_used_and_removed(shell: Shell, tmp_path: Path) -> None:
    added = await shell.run("context", "add", "a", "--server", "http://a:1,http://b:1/")
    assert added.err == "a is http://a:1,http://b:1/, and current\n"
    given = await shell.run(
        "context", "add", "b", "--server", "https://b", "--token", "-", given="qk_secret\n"
    )
    assert given.code == 0

    listed = await shell.run("context", "ls", "-o", "json")
    assert listed.json == [
        {"name": "a", "servers": "http://a:1,http://b:1", "hasToken": False, "current": True},
        {"name": "b", "servers": "https://b", "hasToken": True, "current": False},
    ]
    assert "qk_secret" not in listed.out
    file = tmp_path / "queen" / "contexts.json"
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert json.loads(file.read_text())["contexts"]["b"]["token"] == "qk_secret"

    assert (await shell.run("context", "use", "c")).code == 3
    assert (await shell.run("context", "rm", "a")).code == 2
    assert (await shell.run("context", "rm", "a", "--dry-run")).err == "would remove a\n"
    assert (await shell.run("context", "rm", "a", "--yes")).code == 0
    (left,) = (await shell.run("context", "ls", "-o", "json")).json
    assert (left["name"], left["current"]) == ("b", False)


async def test_a_key_is_not_accepted_on_the_command_line(shell: Shell, tmp_path: Path) -> None:
    ended = await shell.run("context", "add", "a", "--server", "http://a", "--token", "qk_secret")
    assert ended.code == 2
    assert "other users can read a command line" in ended.err
    assert not (tmp_path / "queen").exists()


async def test_a_contexts_key_is_sent_only_to_its_server(
    dsn: str, shell: Shell, tmp_path: Path
) -> None:
    key = (await queen("token", "create", "ops", "--role", "admin", dsn=dsn)).out.strip()
    file = tmp_path / "key"
    file.write_text(f"{key}\n")
    async with Server(dsn, KEYS) as locked:
        add = ("context", "add", "prod", "--server", locked.base_url, "--token", f"@{file}")
        assert (await shell.run(*add)).code == 0
        assert (await shell.run("queue", "ls", QUEEN_BASE_URL="")).code == 0
        # A URL from the command line may be another server.
        assert (await shell.run("queue", "ls", QUEEN_BASE_URL=locked.base_url)).code == 4
        told = {"QUEEN_BASE_URL": locked.base_url, "QUEEN_TOKEN": key}
        assert (await shell.run("queue", "ls", **told)).code == 0


async def test_a_file_that_others_can_read_causes_a_warning(shell: Shell, tmp_path: Path) -> None:
    await shell.run("context", "add", "a", "--server", "http://a")
    (tmp_path / "queen" / "contexts.json").chmod(0o644)
    assert "chmod 600" in (await shell.run("context", "ls")).err


async def test_a_broken_file_is_reported_in_one_sentence(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "queen").mkdir()
    (tmp_path / "queen" / "contexts.json").write_text("{")
    (tmp_path / "queen" / "contexts.json").chmod(0o600)
    ended = await shell.run("context", "ls")
    assert ended.code == 1
    assert len(ended.err.splitlines()) == 1


async def test_a_request_uses_the_given_timeout(shell: Shell) -> None:
    assert (await shell.run("--timeout", "nonsense", "queue", "ls")).code == 2
    assert (await shell.run("--timeout", "10s", "queue", "ls")).code == 0
    assert (await shell.run("--timeout", "1ms", "queue", "ls")).code in (5, 6)


async def test_quiet_still_prints_data(shell: Shell) -> None:
    await shell.run("-q", "push", "orders", "1")
    ended = await shell.run("-q", "queue", "pause", "orders")
    assert (ended.out, ended.err) == ("", "")
