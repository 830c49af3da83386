"""Schedules from the command line."""

from tests.cli.shell import Shell


async def test_a_schedule_is_created_listed_paused_run_and_deleted(shell: Shell) -> None:
    made = await shell.run(
        *("cron", "add", "nightly", "reports", "0 8 * * 1-5", '{"kind": "daily"}'),
        *("--tz", "Europe/Rome", "--missed", "all", "--header", "a=b", "--ttl", "2h", "-o", "json"),
    )
    assert made.code == 0, made
    assert (made.json["payload"], made.json["headers"]) == ({"kind": "daily"}, {"a": "b"})
    assert (made.json["missed"], made.json["ttlSeconds"]) == ("all", 7200)

    (listed,) = (await shell.run("cron", "ls", "-o", "json")).json
    assert (listed["name"], listed["timeZone"]) == ("nightly", "Europe/Rome")
    assert (await shell.run("cron", "ls", "--queue", "other", "-o", "json")).json == []
    assert "0 8 * * 1-5" in (await shell.run("cron", "ls")).out

    assert (await shell.run("cron", "pause", "nightly")).err == "nightly is paused\n"
    assert (await shell.run("cron", "show", "nightly", "-o", "json")).json["paused"]
    assert (await shell.run("cron", "resume", "nightly")).err.startswith("nightly resumes at 20")

    (pushed,) = (await shell.run("cron", "run", "nightly", "-o", "json")).json
    assert pushed["status"] == "queued"
    (message,) = (await shell.run("pop", "reports", "-o", "json")).json
    assert message["headers"]["queen-schedule"] == "nightly"

    assert (await shell.run("cron", "delete", "nightly")).code == 2
    dry = await shell.run("cron", "delete", "nightly", "--dry-run")
    assert dry.err.startswith("would delete nightly")
    assert (await shell.run("cron", "delete", "nightly", "--yes")).code == 0
    assert (await shell.run("cron", "show", "nightly")).code == 3


async def test_an_invalid_schedule_is_a_usage_error(shell: Shell) -> None:
    for arguments in (
        ("cron", "add", "x", "reports", "never"),
        ("cron", "add", "x", "reports", "* * * * *", "{"),
        ("cron", "add", "x", "reports", "* * * * *", "--tz", "Rome"),
        ("cron", "add", "x", "reports", "* * * * *", "--missed", "some"),
    ):
        assert (await shell.run(*arguments)).code == 2, arguments
