"""`queen apply` makes a server match a manifest, and `queen diff` shows how."""

from typing import Any

from tests.cli.apply.manifests import CONFLICT, DIFFERENT, Manifests
from tests.cli.terminal import Terminal
from tests.support.calls import configure, push
from tests.support.server import Server

SHOP: dict[str, Any] = {
    "manager": "shop",
    "queues": {
        "orders": {
            "namespace": "shop",
            "leaseTime": "1m",
            "ordered": False,
            "rateLimit": {"max": 100, "durationMillis": "1s"},
            "schema": {"type": "object", "required": ["id"]},
        },
        "mails": None,
    },
    "schedules": {
        "nightly": {
            "queue": "mails",
            "cron": "0 8 * * 1-5",
            "timeZone": "Europe/Rome",
            "payload": {"kind": "report", "is_daily": True},
            "ttlSeconds": "2h",
        }
    },
}


def shop(**queues: Any) -> dict[str, Any]:  # noqa: ANN401 - of JSON
    return {"manager": "shop", "queues": queues}


async def test_apply_creates_everything_and_a_second_run_changes_nothing(
    server: Server, manifests: Manifests
) -> None:
    first = await manifests.apply(SHOP)

    orders = (await server.get("/resources/queues/orders")).body
    assert (orders["namespace"], orders["version"]) == ("shop", 2)
    options = orders["options"]
    assert (options["leaseTime"], options["ordered"], options["managedBy"]) == (60, False, "shop")
    assert options["rateLimit"] == {"max": 100, "durationMillis": 1000, "per": "queue"}
    nightly = (await server.get("/schedules/nightly")).body
    assert nightly["payload"] == {"kind": "report", "is_daily": True}
    assert (nightly["ttlSeconds"], nightly["managedBy"]) == (7200, "shop")
    assert first.out.splitlines()[0] == "+ queue orders"
    assert "3 to create, 0 to change, 0 to delete, 0 unchanged" in first.err

    second = await manifests.apply(SHOP, "--prune")
    assert second.out == ""
    assert "0 to create, 0 to change, 0 to delete, 3 unchanged" in second.err
    assert (await server.get("/resources/queues/orders")).body["version"] == 2
    assert await manifests.changes("--prune") == []


async def test_diff_shows_each_field_that_apply_changes(
    server: Server, manifests: Manifests
) -> None:
    await manifests.apply(SHOP)
    changed = {**SHOP, "queues": {"orders": {"leaseTime": 90}, "mails": {"paused": True}}}
    manifests.write(changed)

    shown = await manifests.run("diff")

    assert shown.code == DIFFERENT
    assert shown.out.splitlines() == [
        "~ queue orders",
        '    namespace: shop -> ""',
        "    leaseTime: 60 -> 90",
        "    ordered: false -> true",
        '    rateLimit: {"max": 100, "durationMillis": 1000, "per": "queue"} -> (not set)',
        '    schema: {"type": "object", "required": ["id"]} -> (not set)',
        "~ queue mails",
        "    paused: false -> true",
    ]
    assert (await manifests.run("diff", "-o", "name")).out.split() == ["orders", "mails"]
    dry = await manifests.run("apply", "--dry-run")
    assert (dry.code, dry.out) == (0, shown.out)
    assert (await server.get("/resources/queues/orders")).body["version"] == 2
    assert (await manifests.run("apply")).out == shown.out
    assert await manifests.changes() == []


async def test_a_changed_schema_is_shown_line_by_line(manifests: Manifests) -> None:
    names = [f"field{number}" for number in range(20)]
    schema = {"properties": {name: {"type": "string"} for name in names}}
    await manifests.apply(shop(q={"schema": schema}))
    schema["properties"]["field11"] = {"type": "integer"}

    shown = await manifests.run("diff", manifest=shop(q={"schema": schema}))

    lines = [line.strip() for line in shown.out.splitlines()]
    assert '-      "type": "string"' in lines
    assert '+      "type": "integer"' in lines
    assert len(lines) < 10


async def test_a_queue_that_was_paused_by_hand_stays_paused(
    server: Server, manifests: Manifests
) -> None:
    await manifests.apply(SHOP)
    await server.post("/resources/queues/orders/pause")
    await server.post("/schedules/nightly/pause")

    assert await manifests.changes() == []
    (change,) = [
        *(await manifests.run("diff", "-o", "json", manifest=shop(mails={"paused": True}))).json
    ]
    assert change["fields"] == [{"field": "paused", "old": False, "new": True}]


async def test_defaults_are_those_of_the_server(dsn: str, manifests: Manifests) -> None:
    environment = {"DEFAULT_LEASE_TIME": "77"}
    async with Server(dsn, environment) as server:
        url = {"QUEEN_BASE_URL": server.base_url}
        assert (await manifests.run("apply", manifest=shop(q={"leaseTime": 60}), **url)).code == 0

        manifests.write(shop(q={"leaseTime": None}))
        (change,) = (await manifests.run("diff", "-o", "json", **url)).json

        assert change["fields"] == [{"field": "leaseTime", "old": 60, "new": 77}]
        assert (await manifests.run("apply", **url)).code == 0
        assert (await manifests.run("diff", **url)).code == 0


async def test_payloads_are_compared_as_json(manifests: Manifests) -> None:
    def with_payload(payload: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        schedule = {"queue": "q", "cron": "@daily", "payload": payload}
        return {"manager": "shop", "schedules": {"s": schedule}}

    await manifests.apply(with_payload({"a": 1, "b": [1.5, None]}))

    manifests.write(with_payload({"b": [1.5, None], "a": 1.0}))
    assert await manifests.changes() == []
    manifests.write(with_payload({"a": True, "b": [1.5, None]}))
    (change,) = await manifests.changes()
    assert [each["field"] for each in change["fields"]] == ["payload"]


async def test_prune_deletes_only_objects_of_the_manager(
    server: Server, manifests: Manifests
) -> None:
    await configure(server, "by-hand")
    await configure(server, "others", managedBy="other")
    cron = {"queue": "by-hand", "cron": "@daily", "payload": 1}
    await server.post("/schedules", {"name": "by-hand", **cron})
    await server.post("/schedules", {"name": "others", **cron, "managedBy": "other"})
    await manifests.apply(SHOP)
    manifests.write(shop(mails={}))

    assert await manifests.changes() == []
    deleted = await manifests.changes("--prune")
    assert [(each["action"], each["kind"], each["name"]) for each in deleted] == [
        ("delete", "schedule", "nightly"),
        ("delete", "queue", "orders"),
    ]
    unconfirmed = await manifests.run("apply", "--prune")
    assert unconfirmed.code == 2
    assert "delete 1 schedule and 1 queue: add --yes to confirm" in unconfirmed.err
    assert await manifests.changes("--prune") == deleted
    assert (await manifests.run("apply", "--prune", "--yes")).code == 0

    queues = (await server.get("/configure")).body["queues"]
    assert [each["queue"] for each in queues] == ["by-hand", "mails", "others"]
    schedules = (await server.get("/schedules")).body["schedules"]
    assert [each["name"] for each in schedules] == ["by-hand", "others"]
    assert await manifests.changes("--prune") == []


async def test_a_manifest_that_lists_no_objects_prunes_only_on_request(
    server: Server, manifests: Manifests
) -> None:
    await manifests.apply(shop(q={}))

    refused = await manifests.run("apply", "--prune", "--yes", manifest="manager: shop\nqueues:\n")

    assert (refused.code, "add `queues: {}` to it" in refused.err) == (CONFLICT, True), refused
    assert (await server.get("/resources/queues/q")).status == 200
    await manifests.apply(shop(), "--prune", "--yes")
    assert (await server.get("/resources/queues/q")).status == 404


async def test_a_queue_with_messages_is_pruned_only_on_request(
    server: Server, manifests: Manifests
) -> None:
    await manifests.apply(shop(old={}, later={}, empty={}, new={}))
    await push(server, "old", 1, 2)
    await push(server, "later", 1, delaySeconds=3600)
    manifests.write(shop(new={"leaseTime": 60}))

    refused = await manifests.run("apply", "--prune", "--yes")

    assert refused.code == CONFLICT
    assert "queue old has 2 unacknowledged messages." in refused.err
    assert "add --delete-messages" in refused.err
    assert "queue later has 1 unacknowledged message." in refused.err
    assert "    messages: 2 -> 0" in refused.out
    assert (await manifests.run("diff", "--prune")).code == CONFLICT
    queues = (await server.get("/configure")).body["queues"]
    assert len(queues) == 4
    assert all(each["options"]["leaseTime"] == 300 for each in queues)  # As before.

    assert (await manifests.run("apply", "--prune", "--delete-messages", "--yes")).code == 0
    assert [each["queue"] for each in (await server.get("/configure")).body["queues"]] == ["new"]


async def test_objects_of_another_manager_are_changed_only_on_request(
    server: Server, manifests: Manifests
) -> None:
    await configure(server, "q", managedBy="other")
    await configure(server, "free", leaseTime=10)
    manifests.write(shop(q={}, free={"leaseTime": 10}, new={}))

    refused = await manifests.run("apply")

    assert refused.code == CONFLICT
    assert "queue q exists and has the manager other" in refused.err
    assert (await server.get("/resources/queues/new")).status == 404
    taken = await manifests.run("apply", "--take-over", "-o", "json")
    assert taken.code == 0
    assert [(each["name"], each["fields"]) for each in taken.json] == [
        ("q", [{"field": "managedBy", "old": "other", "new": "shop"}]),
        ("free", [{"field": "managedBy", "old": None, "new": "shop"}]),
        ("new", [{"field": "managedBy", "old": None, "new": "shop"}]),
    ]
    assert await manifests.changes() == []


async def test_a_failure_is_reported_with_everything_that_was_applied(
    server: Server, manifests: Manifests
) -> None:
    manifest = shop(good={}, bad={"schema": {"type": "strange"}})
    manifest["schedules"] = {"s": {"queue": "good", "cron": "@daily"}}

    failed = await manifests.run("apply", manifest=manifest)

    assert failed.code == 2, failed
    lines = failed.err.splitlines()
    assert "applied        + queue good" in lines
    assert any(line.startswith("failed         + queue bad: ") for line in lines)
    assert "not attempted  + schedule s" in lines
    assert "applied 1 of 3 changes" in lines[-1]
    assert (await server.get("/resources/queues/good")).status == 200
    manifest["queues"]["bad"] = {}
    repeated = await manifests.apply(manifest)
    assert "2 to create, 0 to change, 0 to delete, 1 unchanged" in repeated.err


async def test_changes_since_the_comparison_are_not_overwritten(
    server: Server, manifests: Manifests
) -> None:
    await manifests.apply(shop(changed={}, deleted={}, kept={}, filled={}))
    manifests.write(shop(changed={"leaseTime": 60}))
    words = ("apply", "-f", str(manifests.file), "--prune")

    with Terminal(*words, environment=manifests.shell.environment) as terminal:
        terminal.until(lambda screen: "delete 3 queues?" in screen)
        await configure(server, "changed", retryLimit=9)
        terminal.press("y", "Enter")
        terminal.until(lambda screen: "ended with 7" in screen)
    queues = (await server.get("/configure")).body["queues"]
    assert len(queues) == 4  # Deletions come last.
    assert queues[0]["options"]["leaseTime"] == 300

    with Terminal(*words, environment=manifests.shell.environment) as terminal:
        terminal.until(lambda screen: "delete 3 queues?" in screen)
        await push(server, "filled", 1)
        await server.delete("/resources/queues/deleted")
        terminal.press("y", "Enter")
        screen = terminal.until(lambda screen: "ended with 7" in screen)
    assert "applied 2 of 4 changes" in " ".join(screen.split())
    queues = (await server.get("/configure")).body["queues"]
    assert [each["queue"] for each in queues] == ["changed", "filled"]
    assert queues[0]["options"]["leaseTime"] == 60


async def test_objects_that_appear_after_the_comparison_keep_their_manager(
    server: Server, manifests: Manifests
) -> None:
    await manifests.apply(shop(old={}))
    cron = {"queue": "mine", "cron": "@daily", "payload": 1}
    words = ("apply", "-f", str(manifests.file), "--prune")
    manifests.write(shop(new={}))
    with Terminal(*words, environment=manifests.shell.environment) as terminal:
        terminal.until(lambda screen: "delete 1 queue?" in screen)
        await configure(server, "new", managedBy="other")
        terminal.press("y", "Enter")
        terminal.until(lambda screen: "ended with 7" in screen)
    manifests.write({**shop(mine={}), "schedules": {"new": cron}})
    with Terminal(*words, environment=manifests.shell.environment) as terminal:
        terminal.until(lambda screen: "delete 1 queue?" in screen)
        await server.post("/schedules", {"name": "new", **cron, "queue": "q", "managedBy": "other"})
        terminal.press("y", "Enter")
        terminal.until(lambda screen: "ended with 7" in screen)

    assert (await server.get("/schedules/new")).body["managedBy"] == "other"
    queues = (await server.get("/configure")).body["queues"]
    managers = {each["queue"]: each["options"]["managedBy"] for each in queues}
    assert managers == {"old": "shop", "new": "other", "mine": "shop"}


async def test_a_manifest_can_be_a_directory_several_files_or_stdin(
    server: Server, manifests: Manifests
) -> None:
    directory = manifests.file.parent / "queen.d"
    directory.mkdir()
    (directory / "a.yaml").write_text("manager: shop\nqueues: {a: }\n---\nqueues: {b: }\n")
    (directory / "b.yml").write_text("manager: shop\nqueues: {c: }\n")
    (directory / "notes.txt").write_text("}")

    ended = await manifests.shell.run("apply", "-f", str(directory))
    assert (ended.code, ended.out.count("+ queue")) == (0, 3), ended
    files = [word for name in ("a.yaml", "b.yml") for word in ("-f", str(directory / name))]
    assert (await manifests.shell.run("diff", *files, "--prune")).code == 0
    given = "manager: shop\nqueues: {a: }\n"
    piped = await manifests.shell.run("diff", "-f", "-", "--prune", given=given)
    assert (piped.code, piped.out.split()) == (DIFFERENT, ["-", "queue", "b", "-", "queue", "c"])
