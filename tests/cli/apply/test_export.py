"""`queen generate manifest` writes the present state as a manifest that changes nothing."""

import json
from typing import Any

import yaml

from tests.cli.apply.manifests import Manifests
from tests.cli.shell import Shell
from tests.support.calls import configure
from tests.support.server import Server

CANARY = "canary-31f0"


async def test_an_exported_manifest_only_sets_the_manager(
    server: Server, shell: Shell, manifests: Manifests
) -> None:
    await configure(server, "a", leaseTime=7.5, rateLimit={"max": 5, "durationMillis": 1000})
    await configure(server, "b", paused=True, schema={"type": "object"}, maxPayloadBytes=10)
    await server.post("/configure", {"queue": "c", "namespace": "shop", "task": "on"})
    await configure(server, "others", managedBy="other")
    cron = {"queue": "c", "cron": "0 0 * * *", "timeZone": "Europe/Rome"}
    payload = {"version": "1e3", "day": "08", "at": "12:30", "n": [1, 1.5, None, True, "no\n"]}
    for number, more in enumerate(({"headers": {"a": "b"}, "ttlSeconds": 5}, {"paused": True})):
        body = {"name": f"s{number}", **cron, **more, "payload": payload}
        assert (await server.post("/schedules", body)).status == 200
    scoped = {"name": "worker", "permissions": ["consume"], "scopes": [{"queue": "a"}]}
    await server.post("/tokens", {**scoped, "expiresAt": "2100-01-01T00:00:00.5Z"})

    exported = await shell.run("generate", "manifest", "--manager", "shop")

    assert exported.code == 0, exported
    assert exported.err == "note: queue others is missing, because it has the manager other\n"
    manifest: dict[str, Any] = yaml.safe_load(exported.out)
    assert manifest["queues"]["a"] == {
        "leaseTime": 7.5,
        "rateLimit": {"max": 5, "durationMillis": 1000, "per": "queue"},
    }
    manifests.write(exported.out)
    changes = await manifests.changes("--prune", "--take-over")
    assert [each["name"] for each in changes] == ["a", "b", "c", "s0", "s1", "worker"]
    wanted = [{"field": "managedBy", "old": None, "new": "shop"}]
    assert all(each["fields"] == wanted for each in changes), changes
    assert (await manifests.run("apply", "--take-over")).code == 0
    again = await shell.run("generate", "manifest", "--manager", "shop")
    assert again.out == exported.out


async def test_masked_schedules_are_compared_but_never_shown(
    dsn: str, shell: Shell, manifests: Manifests
) -> None:
    async with Server(dsn, {"QUEEN_ENCRYPTION_KEY": "ab" * 32}) as server:
        url = {"QUEEN_BASE_URL": server.base_url}
        schedule = {"queue": "q", "cron": "@yearly", "payload": {"who": CANARY}}
        manifest: dict[str, Any] = {
            "manager": "shop",
            "queues": {"q": {"encryptionEnabled": True}},
            "schedules": {"s": schedule},
        }
        created = await manifests.run("apply", manifest=manifest, **url)
        assert (created.code, CANARY in created.out) == (0, False), created
        assert (await manifests.run("diff", **url)).code == 0

        schedule["payload"] = {"who": f"{CANARY}-2"}
        changed = await manifests.run("diff", manifest=manifest, **url)
        assert changed.out == "~ schedule s\n    payload: changed (masked)\n"
        assert CANARY not in (await manifests.run("apply", "-o", "json", **url)).out
        assert (await manifests.run("diff", **url)).code == 0

        hidden = await shell.run("generate", "manifest", "--manager", "shop", **url)
        assert (CANARY in hidden.out, "schedule s is missing" in hidden.err) == (False, True)
        shown = await shell.run("generate", "manifest", "--manager", "shop", "--reveal", **url)
        assert f"{CANARY}-2" in shown.out
    # This server has no encryption key, so it can only compare the rest.
    unreadable = await manifests.run("diff")
    assert (unreadable.code, "it was not compared" in unreadable.err) == (0, True), unreadable


async def test_a_manifest_that_apply_would_reject_is_not_generated(shell: Shell) -> None:
    ended = await shell.run("generate", "manifest", "--manager", "")

    assert (ended.code, ended.out) == (2, "")
    assert "--manager '' is invalid" in ended.err


async def test_the_schema_is_json(shell: Shell) -> None:
    ended = await shell.run("generate", "manifest-schema")

    assert json.loads(ended.out)["$schema"] == "https://json-schema.org/draft/2020-12/schema"
