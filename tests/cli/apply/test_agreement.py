"""Whatever the manifest and the state, `queen diff` shows exactly what `queen apply` does."""

import json
import random
from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.cli.apply.manifests import Manifests
from tests.support.calls import configure
from tests.support.server import Server

Json = Any
Objects = dict[tuple[str, str], dict[str, Json]]
"""The fields of each object, by kind and name."""

_OPTIONS: Final[dict[str, Callable[[random.Random], Json]]] = {
    "leaseTime": lambda chance: chance.choice([None, 30, 7.5, "2m"]),
    "retryLimit": lambda chance: chance.choice([None, 0, 3]),
    "ordered": lambda chance: chance.choice([True, False]),
    "rateLimit": lambda chance: chance.choice([None, {"max": 5, "durationMillis": 1000}]),
    "paused": lambda chance: chance.choice([True, False]),
    "schema": lambda chance: chance.choice([None, {"const": 1}, {"const": True}, {"const": 1.5}]),
    "namespace": lambda chance: chance.choice(["", "shop"]),
    "maxPayloadBytes": lambda chance: chance.choice([None, 100]),
}
_PAYLOADS: Final = (None, 1, True, "1", [1, {"a": None}], {"a": 1.5})
_KEYS: Final = (
    {"role": "read-only"},
    {"permissions": ["consume", "browse"]},
    {"permissions": ["consume"], "scopes": [{"queue": "q1"}, {"namespace": "shop"}]},
    {"role": "admin", "requestsPerSecond": 5, "expiresAt": "2100-01-01T00:00:00Z"},
)


def a_manifest(chance: random.Random) -> dict[str, Json]:
    def some(prefix: str, make: Callable[[], Json]) -> dict[str, Json]:
        return {f"{prefix}{number}": make() for number in range(4) if chance.random() < 0.6}

    def queue() -> Json:
        return {name: of(chance) for name, of in _OPTIONS.items() if chance.random() < 0.4}

    def schedule() -> Json:
        found: dict[str, Json] = {
            "queue": "target",
            "cron": chance.choice(["@daily", "0 8 * * 1"]),
            "payload": chance.choice(_PAYLOADS),
        }
        more = {"paused": True, "headers": {"a": "b"}, "missed": "all", "ttlSeconds": "1h"}
        return {**found, **{name: each for name, each in more.items() if chance.random() < 0.3}}

    return {
        "manager": "shop",
        "queues": {"target": {}, **some("q", queue)},
        "schedules": some("s", schedule),
        "keys": some("k", lambda: chance.choice(_KEYS)),
    }


async def objects(server: Server) -> Objects:
    """Read everything that a manifest can set, without the code of the command."""
    found: Objects = {}
    for each in (await server.get("/configure", limit=1000)).body["queues"]:
        fields = {"namespace": each["namespace"], "task": each["task"], **each["options"]}
        found["queue", each["queue"]] = fields
    for each in (await server.get("/schedules")).body["schedules"]:
        detail = (await server.get(f"/schedules/{each['name']}")).body
        ignored = {"name", "nextAt", "lastAt", "error", "createdAt", "masked"}
        found["schedule", each["name"]] = {
            name: value for name, value in detail.items() if name not in ignored
        }
    for each in (await server.get("/tokens")).body["tokens"]:
        named = ("role", "permissions", "scopes", "expiresAt", "requestsPerSecond", "managedBy")
        fields = {name: each[name] for name in named}
        if fields["role"]:
            fields["permissions"] = None
        if fields["scopes"]:
            fields["scopes"].sort(key=canonical)  # As the command does, their order has no meaning.
        found["key", each["name"]] = fields
    return found


def canonical(value: Json) -> str:
    """Return a text, because 1 and true are equal in Python. A number is 5, not 5.0."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, sort_keys=True)


def check(before: Objects, after: Objects, shown: list[Json]) -> None:
    """Every change was shown, and every shown change was made."""
    changes = {(each["kind"], each["name"]): each for each in shown}
    assert len(changes) == len(shown)
    for key in before.keys() | after.keys():
        old, new = before.get(key), after.get(key)
        change = changes.get(key)
        if change is None:
            assert canonical(old) == canonical(new), key
            continue
        action = "create" if old is None else "delete" if new is None else "change"
        assert change["action"] == action, key
        fields = {each["field"]: each for each in change["fields"]}
        if new is None:
            continue
        for name, each in fields.items():
            assert canonical(each["new"]) == canonical(new[name]), (key, name)
            assert old is None or canonical(each["old"]) == canonical(old[name]), (key, name)
        if old is not None:
            moved = {name for name in new if canonical(old[name]) != canonical(new[name])}
            assert moved == fields.keys(), key
    assert changes.keys() <= before.keys() | after.keys()


@pytest.mark.parametrize("rounds", [4, pytest.param(60, marks=pytest.mark.nightly)])
@pytest.mark.timeout(600)
async def test_diff_and_apply_agree(server: Server, manifests: Manifests, rounds: int) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    print("seed", seed)
    await configure(server, "by-hand", leaseTime=5)
    for _ in range(rounds):
        manifests.write(a_manifest(chance))
        if chance.random() < 0.5:  # Drift.
            await configure(server, f"q{chance.randrange(4)}", retryLimit=9, ttl=5)
            await server.delete(f"/schedules/s{chance.randrange(4)}")
        flags = ["--prune"] if chance.random() < 0.7 else []
        before = await objects(server)

        shown = await manifests.changes(*flags)
        applied = await manifests.run(
            "apply", *flags, "--yes", "--secrets", "/dev/null", "-o", "json"
        )

        assert (applied.code, applied.json) == (0, shown), applied
        check(before, await objects(server), shown)
        assert await manifests.changes(*flags) == []
    assert (await objects(server))["queue", "by-hand"]["leaseTime"] == 5
