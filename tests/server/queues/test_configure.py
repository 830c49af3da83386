"""Configure over HTTP: every option is stored, shown and checked."""

import re
import secrets
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from queen.wire.options import QueueOptions
from tests.support.calls import a_queue, ack, configure, data, items, pop, pop_one, push
from tests.support.server import Reply, Server, until
from tests.support.verbs import pages

DEFAULTS = {
    "leaseTime": 300,
    "retryLimit": 3,
    "retryDelay": 1000,
    "maxRetryDelay": 300_000,
    "retryBackoff": 2,
    "priority": 0,
    "delayedProcessing": 0,
    "windowBuffer": 0,
    "dlqAfterMaxRetries": True,
    "maxSize": 0,
    "ttl": 0,
    "dedupWindowSeconds": 86_400,
    "ordered": True,
    "rateLimit": None,
    "concurrencyLimit": 0,
    "retentionEnabled": False,
    "retentionSeconds": 0,
    "completedRetentionSeconds": 0,
    "partitionRetentionSeconds": 0,
    "maxWaitTimeSeconds": 0,
    "paused": False,
    "maxPayloadBytes": None,
    "schema": None,
    "encryptionEnabled": False,
    "managedBy": None,
}
OTHERS = {
    "leaseTime": 7.5,
    "retryLimit": 1,
    "retryDelay": 5,
    "maxRetryDelay": 50,
    "retryBackoff": 1.5,
    "priority": -3,
    "delayedProcessing": 1,
    "windowBuffer": 2,
    "dlqAfterMaxRetries": False,
    "maxSize": 10,
    "ttl": 60,
    "dedupWindowSeconds": 0,
    "ordered": False,
    "rateLimit": {"max": 5, "durationMillis": 1000, "per": "partition"},
    "concurrencyLimit": 4,
    "retentionEnabled": True,
    "retentionSeconds": 86_400.5,
    "completedRetentionSeconds": 3_600,
    "partitionRetentionSeconds": 7_200,
    "maxWaitTimeSeconds": 600,
    "paused": True,
    "maxPayloadBytes": 100,
    "schema": {"type": "object"},
    "encryptionEnabled": True,
    "managedBy": "shop",
}


def shown(options: dict[str, Any]) -> dict[str, Any]:
    """The options that this test covers."""
    return {name: options.get(name) for name in DEFAULTS}


def test_every_option_has_a_default_another_value_and_a_test() -> None:
    # A queue keeps its placement, so that option has tests of its own.
    names = {*QueueOptions.__struct_encode_fields__} - {"deadLetterQueue", "placement"}
    obeyed = Path(__file__).with_name("test_options.py").read_text("utf-8")
    obeyed += Path(__file__).with_name("test_upkeep.py").read_text("utf-8")

    assert {*DEFAULTS} == {*OTHERS} == names
    assert {each for each in names if not re.search(rf"\b{each}(=|\": )", obeyed)} == set()


async def test_a_new_queue_has_every_default(shared: Server) -> None:
    queue = a_queue()

    reply = await shared.post("/configure", {"queue": queue})

    assert reply.status == 200
    body = reply.body
    assert (body["configured"], body["queue"]) == (True, queue)
    assert (body["namespace"], body["task"]) == ("", "")
    assert isinstance(body["version"], int)
    assert shown(body["options"]) == DEFAULTS


async def test_namespace_and_task_are_never_derived_from_the_name(shared: Server) -> None:
    body = await configure(shared, f"shop.orders/{a_queue()}")

    assert (body["namespace"], body["task"]) == ("", "")


@pytest.mark.parametrize("option", OTHERS)
async def test_options_are_kept_and_null_resets_one(shared: Server, option: str) -> None:
    queue = a_queue()

    first = await configure(shared, queue, **{option: OTHERS[option]})
    kept = await configure(shared, queue)
    default = await configure(shared, queue, **{option: None})

    assert shown(first["options"]) == {**DEFAULTS, option: OTHERS[option]}
    assert shown(kept["options"]) == shown(first["options"])
    assert shown(default["options"]) == DEFAULTS


async def test_options_of_all_queues_are_listed_by_name_with_the_defaults(dsn: str) -> None:
    async with Server(dsn, {"DEFAULT_RETRY_LIMIT": "7"}) as server:
        made = [await configure(server, name, leaseTime=10) for name in ("c", "a", "b")]

        first, second = await pages(server, "/configure", "queues", limit=2)
        whole = (await server.get("/configure")).body

        assert first + second == whole["queues"]
        assert [each["queue"] for each in whole["queues"]] == ["a", "b", "c"]
        assert all({"configured": True, **each} in made for each in whole["queues"])
        assert shown(whole["defaults"]) == {**DEFAULTS, "retryLimit": 7}
        assert (await server.get("/configure", cursor="x")).code == "bad_request"


async def test_a_page_of_options_ends_early_if_schemas_are_large(dsn: str) -> None:
    async with Server(dsn) as server:
        for name in "abcd":
            await configure(server, name, schema={"const": secrets.token_hex(75_000)})

        found = await pages(server, "/configure", "queues", limit=100)

        # The page contains the queue that exceeds the limit.
        assert [[each["queue"] for each in page] for page in found] == [["a", "b"], ["c", "d"]]


async def test_replace_resets_absent_options(shared: Server) -> None:
    queue = a_queue()
    await configure(shared, queue, leaseTime=10, retryLimit=1)

    reply = await shared.post(
        "/configure", {"queue": queue, "options": {"retryLimit": 2}, "mode": "replace"}
    )

    assert shown(reply.body["options"]) == {**DEFAULTS, "retryLimit": 2}


async def test_dead_letter_queue_is_an_alias(shared: Server) -> None:
    body = await configure(shared, a_queue(), deadLetterQueue=False)

    assert body["options"]["dlqAfterMaxRetries"] is False
    assert "deadLetterQueue" not in body["options"]


@pytest.mark.parametrize(
    "options",
    [
        {"leaseTme": 1},
        {"leaseTime": 0},
        {"leaseTime": 43_201},
        {"leaseTime": "5"},
        {"retryLimit": -1},
        {"retryBackoff": 0.5},
        {"priority": 1001},
        {"priority": -1001},
        {"priority": 1.5},
        {"ordered": 1},
        {"rateLimit": {"max": 0, "durationMillis": 1000}},
        {"rateLimit": {"max": 1}},
        {"rateLimit": {"max": 1, "duration": 1000}},
        {"rateLimit": {"max": 1, "durationMillis": 1000, "per": "group"}},
        {"schema": {"type": "strange"}},
        {"schema": {"$ref": "https://example.com/schema.json"}},
        {"maxPayloadBytes": 0},
        {"paused": "yes"},
        {"managedBy": ""},
        {"managedBy": "a\0b"},
        {"managedBy": "a" * 256},
    ],
)
async def test_an_invalid_option_is_rejected(shared: Server, options: object) -> None:
    queue = a_queue()

    reply = await shared.post("/configure", {"queue": queue, "options": options})

    assert (reply.status, reply.code, reply.body["applied"]) == (400, "invalid_option", False)
    assert (await shared.post(f"/pop/queue/{queue}", {})).code == "queue_not_found"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "bad_request"),
        ({"queue": 1}, "bad_request"),
        ({"queue": "q", "option": {}}, "bad_request"),
        ({"queue": "q", "options": []}, "bad_request"),
        ({"queue": "q", "mode": "overwrite"}, "bad_request"),
        ({"queue": ""}, "invalid_name"),
        ({"queue": "__q"}, "invalid_name"),
        ({"queue": "q", "namespace": "a\nb"}, "invalid_name"),
        ({"queue": "q", "task": "t" * 256}, "invalid_name"),
    ],
)
async def test_a_malformed_configure_is_rejected(shared: Server, body: object, code: str) -> None:
    reply = await shared.post("/configure", body)

    assert (reply.status, reply.code, reply.body["applied"]) == (400, code, False)


async def test_if_match_detects_concurrent_changes(shared: Server) -> None:
    queue = a_queue()
    first = await configure(shared, queue)

    async def with_version(version: object) -> Reply:
        body = {"queue": queue, "options": {"retryLimit": 9}}
        headers = {"If-Match": str(version)}
        return await shared.request("POST", "/configure", body, headers=headers)

    good = await with_version(f'"{first["version"]}"')
    stale = await with_version(first["version"])
    nonsense = await with_version("latest")

    assert (good.status, good.body["version"] != first["version"]) == (200, True)
    assert (stale.status, stale.code, stale.body["applied"]) == (412, "version_mismatch", False)
    assert (nonsense.status, nonsense.code) == (400, "bad_request")


async def test_priority_is_the_only_option_of_a_partition(shared: Server) -> None:
    queue = a_queue()
    for name in ("a", "b"):
        await push(shared, queue, name, partition=name)
    body: dict[str, Any] = {"queue": queue, "partition": "b", "options": {"priority": 5}}

    assert (await shared.post("/configure", body)).status == 200
    other = await shared.post("/configure", {**body, "options": {"leaseTime": 5}})
    absent = await shared.post("/configure", {**body, "partition": "c"})

    assert (other.status, other.code) == (400, "invalid_option")
    assert (absent.status, absent.code) == (404, "partition_not_found")
    assert data(await pop(shared, queue)) == ["b"]


async def test_other_processes_apply_new_options_to_the_next_call(dsn: str) -> None:
    async with Server(dsn) as one, Server(dsn) as two:
        await push(one, "q", 1)
        assert (await ack(two, await pop_one(two, "q"))).status == 200

        await configure(one, "q", maxPayloadBytes=1)

        async def is_applied() -> bool:
            return (await two.post("/push", {"items": items("q", "abc")})).status == 413

        # By a notification. Without one, options are cached for five seconds.
        await until(is_applied, seconds=10)


async def test_operators_set_the_defaults(dsn: str) -> None:
    environment = {
        "DEFAULT_LEASE_TIME": "11",
        "DEFAULT_RETRY_LIMIT": "7",
        "DEFAULT_RETRY_DELAY": "77",
        "DEFAULT_DLQ_AFTER_MAX_RETRIES": "false",
        "DEFAULT_MAX_SIZE": "5",
    }
    async with Server(dsn, environment) as server:
        options = (await configure(server, "q"))["options"]

        assert (options["leaseTime"], options["retryLimit"], options["retryDelay"]) == (11, 7, 77)
        assert (options["dlqAfterMaxRetries"], options["maxSize"]) == (False, 5)


@pytest.mark.parametrize(
    ("fields", "headers"),
    [
        ({"namespace": "n"}, {}),
        ({"task": "t"}, {}),
        ({"mode": "replace"}, {}),
        ({}, {"If-Match": "1"}),
    ],
)
async def test_options_that_a_partition_lacks_are_rejected(
    shared: Server, fields: dict[str, Any], headers: dict[str, str]
) -> None:
    queue = a_queue()
    await push(shared, queue, 1, partition="p")
    body = {"queue": queue, "partition": "p", "options": {"priority": 5}}

    reply = await shared.request("POST", "/configure", {**body, **fields}, headers=headers)

    assert (reply.status, reply.code) == (400, "bad_request")
    assert (await shared.post("/configure", body)).status == 200


async def test_if_match_on_a_missing_queue_is_a_version_mismatch(shared: Server) -> None:
    queue = a_queue()

    reply = await shared.request("POST", "/configure", {"queue": queue}, headers={"If-Match": "1"})

    assert (reply.status, reply.code, reply.body["applied"]) == (412, "version_mismatch", False)
    assert (await shared.get(f"/resources/queues/{queue}")).status == 404


async def test_if_match_zero_creates_a_queue_but_changes_none(shared: Server) -> None:
    body = {"queue": a_queue(), "options": {"retryLimit": 9}}

    created = await shared.request("POST", "/configure", body, headers={"If-Match": "0"})
    again = await shared.request("POST", "/configure", body, headers={"If-Match": "0"})

    assert (created.status, created.body["options"]["retryLimit"]) == (200, 9)
    assert (again.status, again.code, again.body["applied"]) == (412, "version_mismatch", False)
    assert "exists" in again.body["error"]


async def test_contradicting_aliases_are_rejected(shared: Server) -> None:
    options = {"deadLetterQueue": False, "dlqAfterMaxRetries": True}
    reply = await shared.post("/configure", {"queue": a_queue(), "options": options})
    assert (reply.status, reply.code) == (400, "invalid_option")

    configured = await configure(shared, a_queue(), deadLetterQueue=False, dlqAfterMaxRetries=False)
    assert configured["options"]["dlqAfterMaxRetries"] is False


async def test_lease_time_is_limited_by_the_longest_lease(dsn: str) -> None:
    async with Server(dsn, {"QUEEN_MAX_LEASE_SECONDS": "100"}) as server:
        reply = await server.post("/configure", {"queue": "q", "options": {"leaseTime": 200}})

        assert (reply.status, reply.code) == (400, "invalid_option")
        assert (await configure(server, "q", leaseTime=100))["options"]["leaseTime"] == 100


async def test_problems_contain_no_hints_from_postgresql(dsn: str) -> None:
    async with Server(dsn) as server:
        await configure(server, "q")
        connection = await asyncpg.connect(dsn)
        # A constraint of the database that the server doesn't check.
        await connection.execute(
            "alter table queen.queues add constraint lease_is_short check (lease_seconds < 500)"
        )
        await connection.close()

        reply = await server.post("/configure", {"queue": "q", "options": {"leaseTime": 600}})

        assert reply.status == 400
        assert "lease_is_short" in reply.body["detail"]
        assert "DETAIL" not in reply.body["detail"]


@pytest.mark.parametrize("name", ["a\x00b", "", "__ours", " outer "])
async def test_an_invalid_queue_name_is_rejected(shared: Server, name: str) -> None:
    reply = await shared.post("/configure", {"queue": name})

    assert (reply.status, reply.code) == (400, "invalid_name")
