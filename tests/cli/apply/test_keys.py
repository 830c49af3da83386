"""API keys in manifests: their scopes change, their secrets never do."""

import json
import resource
import stat
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from queen.cli.apply.plan import Change, Plan
from queen.cli.apply.secrets import Secrets
from queen.cli.support.exit_codes import FileTrouble
from queen.wire.access import NewToken
from tests.cli.apply.manifests import CONFLICT, DIFFERENT, Manifests
from tests.cli.shell import Shell
from tests.cli.terminal import Terminal
from tests.support.callers import KEYS, Caller, make_key
from tests.support.server import Server


@pytest.fixture
async def server(dsn: str) -> AsyncIterator[Server]:
    async with Server(dsn, KEYS) as server:
        yield server


@pytest.fixture
async def admin(dsn: str, server: Server, shell: Shell) -> Caller:
    key = await make_key(dsn)
    shell.environment["QUEEN_TOKEN"] = key
    return Caller(server, key)


def keys(**found: Any) -> dict[str, Any]:  # noqa: ANN401 - of JSON
    return {"manager": "shop", "keys": found}


async def test_a_key_is_created_once_changed_in_place_and_revoked(
    admin: Caller, manifests: Manifests, tmp_path: Path
) -> None:
    file = tmp_path / "secrets"
    worker = {"permissions": ["consume", "browse"], "scopes": [{"queue": "a"}, {"queue": "b"}]}
    manifests.write(keys(worker=worker))

    # The output of a test is not a terminal, so a secret would end up in a log.
    refused = await manifests.run("apply")
    assert (refused.code, "--secrets FILE" in refused.err) == (2, True), refused
    assert len((await admin.get("/tokens")).body["tokens"]) == 1
    created = await manifests.run("apply", "--secrets", str(file))
    assert created.code == 0, created

    stored = json.loads(file.read_text())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stored["token"] not in created.out + created.err
    caller = Caller(admin.server, stored["token"])
    assert (await caller.get("/auth/me")).body["permissions"] == ["browse", "consume"]

    # The order of permissions and scopes is irrelevant.
    worker = {"permissions": ["browse", "consume"], "scopes": [{"queue": "b"}, {"queue": "a"}]}
    manifests.write(keys(worker=worker))
    assert await manifests.changes("--prune") == []
    (change,) = (
        await manifests.run("apply", "-o", "json", manifest=keys(worker={"role": "read-only"}))
    ).json
    assert (change["action"], change["id"]) == ("change", stored["id"])
    assert [each["field"] for each in change["fields"]] == ["role", "permissions", "scopes"]
    me = (await caller.get("/auth/me")).body
    assert (me["permissions"], me["scopes"]) == (["browse"], None)

    assert (await manifests.run("apply", "--prune", "--yes", manifest=keys())).code == 0
    assert (await caller.get("/auth/me")).status == 401
    assert (await admin.get("/auth/me")).status == 200  # It has no manager.


async def test_every_field_of_a_key_is_applied(admin: Caller, manifests: Manifests) -> None:
    key = {
        "role": "read-write",
        "scopes": [{"namespace": "shop"}],
        "expiresAt": "2100-01-01T01:00:00+01:00",
        "requestsPerSecond": 5,
    }
    await manifests.apply(keys(k=key), "--secrets", "/dev/null")

    (found,) = [each for each in (await admin.get("/tokens")).body["tokens"] if each["managedBy"]]
    assert (found["role"], found["scopes"]) == ("read-write", [{"namespace": "shop"}])
    assert (found["expiresAt"], found["requestsPerSecond"]) == ("2100-01-01T00:00:00Z", 5)
    assert (await manifests.changes(), found["managedBy"]) == ([], "shop")


async def test_a_key_that_was_created_by_hand_is_changed_only_on_request(
    dsn: str, admin: Caller, manifests: Manifests
) -> None:
    await make_key(dsn, name="ci", role="read-only")
    manifests.write(keys(ci={"role": "admin"}))

    refused = await manifests.run("apply")
    assert (refused.code, "API key ci exists and has no manager" in refused.err) == (CONFLICT, True)
    assert (await manifests.run("apply", "--take-over")).code == 0
    assert await manifests.changes() == []

    await make_key(dsn, name="two", role="read-only")
    await make_key(dsn, name="two", role="read-only")
    ambiguous = await manifests.run("apply", "--take-over", manifest=keys(two={"role": "admin"}))
    assert (ambiguous.code, "2 API keys are named two" in ambiguous.err) == (CONFLICT, True)


async def test_a_terminal_shows_a_secret_and_asks_before_deletions(
    admin: Caller, manifests: Manifests
) -> None:
    manifests.write(keys(worker={"role": "read-only"}))
    environment = manifests.shell.environment
    with Terminal("apply", "-f", str(manifests.file), environment=environment) as terminal:
        screen = terminal.until(lambda each: "ended with 0" in each)
    secret = "".join(screen.partition("API key worker: ")[2].partition("Store it")[0].split())
    assert (await Caller(admin.server, secret).get("/auth/me")).status == 200

    manifests.write(keys())
    words = ("apply", "-f", str(manifests.file), "--prune")
    for answer, code in (("n", 1), ("y", 0)):
        with Terminal(*words, environment=environment) as terminal:
            terminal.until(lambda each: "delete 1 API key?" in each)
            terminal.press(answer, "Enter")
            terminal.until(lambda each, code=code: f"ended with {code}" in each)
    assert (await Caller(admin.server, secret).get("/auth/me")).status == 401


async def test_a_manifest_without_keys_needs_no_admin_permission(
    dsn: str, admin: Caller, manifests: Manifests
) -> None:
    permissions = ["browse", "configure", "destroy"]
    key = {"QUEEN_TOKEN": await make_key(dsn, permissions=permissions)}
    manifest: dict[str, Any] = {"manager": "shop", "queues": {"a": {}, "b": {}}}
    assert (await manifests.run("apply", manifest=manifest, **key)).code == 0

    manifest["queues"] = {"a": {}}
    pruned = await manifests.run("apply", "--prune", "--yes", manifest=manifest, **key)

    assert (pruned.code, "API keys were not checked" in pruned.err) == (0, True), pruned
    listed = (await admin.get("/configure")).body["queues"]
    assert [each["queue"] for each in listed] == ["a"]
    refused = await manifests.run("diff", manifest=keys(k={"role": "admin"}), **key)
    assert (refused.code, "move keys to a manifest with another manager" in refused.err) == (
        4,
        True,
    )


async def test_missing_permissions_are_found_before_the_first_change(
    dsn: str, admin: Caller, manifests: Manifests
) -> None:
    schedule = {"queue": "a", "cron": "@daily"}
    manifests.write({"manager": "shop", "queues": {"a": {}}, "schedules": {"s": schedule}})
    reader = {"QUEEN_TOKEN": await make_key(dsn, role="read-only")}
    configurer = {"QUEEN_TOKEN": await make_key(dsn, permissions=["browse", "configure"])}

    assert (await manifests.run("diff", **reader)).code == DIFFERENT
    assert (await manifests.run("apply", "--dry-run", **reader)).code == 0
    for key, permission in ((reader, "configure"), (configurer, "produce")):
        refused = await manifests.run("apply", **key)
        assert (refused.code, f"lacks the permission {permission}" in refused.err) == (4, True)
        assert "No changes were made" in refused.err

    assert (await admin.get("/configure")).body["queues"] == []


async def test_a_secret_is_not_lost_if_its_file_cannot_be_written(
    admin: Caller, manifests: Manifests, tmp_path: Path
) -> None:
    manifests.write(keys(k={"role": "admin"}))

    refused = await manifests.run("apply", "--secrets", str(tmp_path / "none" / "secrets"))

    assert (refused.code, "cannot write" in refused.err) == (1, True)
    assert len((await admin.get("/tokens")).body["tokens"]) == 1
    full = await manifests.run("apply", "--secrets", "/dev/full")
    assert full.code == 1
    assert "Revoke the key with `queen token revoke" in full.err


async def test_a_secret_is_not_appended_to_a_file_that_others_can_read(
    admin: Caller, manifests: Manifests, tmp_path: Path
) -> None:
    file = tmp_path / "secrets"
    file.touch(0o640)
    manifests.write(keys(k={"role": "admin"}))

    refused = await manifests.run("apply", "--secrets", str(file))

    assert (refused.code, f"Run `chmod 600 {file}`" in refused.err) == (1, True), refused
    assert (file.read_text(), len((await admin.get("/tokens")).body["tokens"])) == ("", 1)
    file.chmod(0o600)
    assert (await manifests.run("apply", "--secrets", str(file))).code == 0


def test_a_secret_that_is_written_in_part_is_reported_as_lost(tmp_path: Path) -> None:
    key = NewToken(
        id="1",
        name="worker",
        token="s" * 40,
        role="admin",
        permissions=[],
        scopes=None,
        expires_at=None,
        requests_per_second=None,
        created_at=datetime.now(UTC),
        created_by="admin",
        revoked_at=None,
    )
    change = Change(action="create", kind="key", name="worker")
    plan = Plan(manager="shop", changes=[change], unchanged=0, conflicts=[], notes=[])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    with Secrets(plan, str(tmp_path / "secrets")) as secrets:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20, limits[1]))
        try:
            with pytest.raises(FileTrouble, match="The secret of API key worker is lost"):
                secrets.keep(key)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
