"""Jobs from the command line."""

from tests.cli.shell import Shell


async def test_a_job_is_added_listed_shown_and_cancelled(shell: Shell) -> None:
    made = await shell.run(
        *("job", "add", "email", "send-welcome", '{"to": "a@b.c"}', "--priority", "high"),
        *("--attempts", "5", "--tag", "a", "--tag", "b", "-o", "json"),
    )
    assert made.code == 0, made
    (added,) = made.json
    assert added["duplicate"] is False

    (listed,) = (await shell.run("job", "ls", "email", "-o", "json")).json
    assert (listed["id"], listed["status"], listed["priority"]) == (added["id"], "waiting", 2)
    assert (await shell.run("job", "ls", "email", "--status", "failed", "-o", "json")).json == []
    assert (await shell.run("job", "ls", "email", "--tag", "b", "-o", "name")).out == (
        f"{added['id']}\n"
    )
    assert "send-welcome" in (await shell.run("job", "ls", "email")).out

    shown = (await shell.run("job", "show", "email", added["id"], "-o", "json")).json
    assert (shown["data"], shown["attempts"]) == ({"to": "a@b.c"}, 5)

    assert (await shell.run("job", "cancel", "email", added["id"])).code == 2
    cancelled = await shell.run("job", "cancel", "email", added["id"], "--yes")
    assert cancelled.err == f"{added['id']} was waiting and is cancelled\n"
    assert (await shell.run("job", "cancel", "email", added["id"], "--yes")).code == 7


async def test_a_job_with_a_key_is_found_by_it(shell: Shell) -> None:
    arguments = ("job", "add", "mail", "n", "--unique", "u", "--key", "k", "--delay", "1h")
    for is_duplicate in (False, True):
        (added,) = (await shell.run(*arguments, "-o", "json")).json
        assert (added["id"], added["duplicate"]) == ("u", is_duplicate)

    assert (await shell.run("job", "show", "mail", "u")).code == 3
    shown = (await shell.run("job", "show", "mail", "u", "--key", "k", "-o", "json")).json
    assert shown["status"] == "scheduled"
    (listed,) = (await shell.run("job", "ls", "mail", "--status", "scheduled", "-o", "json")).json
    assert listed["key"] == "k"


async def test_invalid_arguments_of_a_job_are_usage_errors(shell: Shell) -> None:
    for arguments in (
        ("job", "add", "mail", "n", "{"),
        ("job", "add", "mail", "n", "--delay", "soon"),
        ("job", "add", "mail", "n", "--priority", "some"),
        ("job", "ls", "mail", "--status", "asleep"),
    ):
        assert (await shell.run(*arguments)).code == 2, arguments
