"""Calls out of scope are rejected, whether the named object exists or not."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from queen.codec.ids import message_id
from tests.support.callers import KEYS, Caller, make_key
from tests.support.server import Reply, Server


@pytest.fixture
async def server(dsn: str) -> AsyncIterator[Server]:
    async with Server(dsn, KEYS) as server:
        yield server


@pytest.fixture
async def admin(dsn: str, server: Server) -> Caller:
    return Caller(server, await make_key(dsn))


@pytest.fixture
async def shop(dsn: str, server: Server) -> Caller:
    """A caller with all permissions on the queues of the shop."""
    return Caller(server, await make_key(dsn, scopes=[{"queue": "shop.*"}]))


def is_refused(reply: Reply) -> bool:
    return (reply.status, reply.code, reply.body["applied"]) == (403, "forbidden", False)


async def pop(caller: Caller, queue: str) -> dict[str, Any]:
    (message,) = (await caller.get(f"/pop/queue/{queue}")).body["messages"]
    return message


async def test_a_caller_may_do_everything_in_its_scope(shop: Caller) -> None:
    assert (await shop.push("shop.a")).status == 201
    assert (await shop.post("/configure", {"queue": "shop.a"})).status == 200
    message = await pop(shop, "shop.a")
    lease = message["leaseId"]
    assert (await shop.post(f"/lease/{lease}/extend", {"seconds": 600})).status == 200
    named = {"transactionId": message["transactionId"], "partitionId": message["partitionId"]}
    assert (await shop.post("/ack", {**named, "leaseId": lease})).body["success"]

    await shop.push("shop.a")
    message = await pop(shop, "shop.a")
    done = {"type": "ack", "id": message["id"], "leaseId": message["leaseId"]}
    push = {"type": "push", "items": [{"queue": "shop.b", "payload": 1}]}
    assert (await shop.post("/transaction", {"operations": [done, push]})).status == 200
    message = await pop(shop, "shop.b")
    assert (await shop.post(f"/lease/{message['leaseId']}/release")).status == 200


async def test_a_push_with_one_item_out_of_scope_is_rejected_completely(
    admin: Caller, shop: Caller
) -> None:
    await admin.push("secret")
    for queue in ("secret", "there is none", "shop", "xshop.a"):
        assert is_refused(await shop.push(queue))
    both = [{"queue": "shop.a", "payload": 1}, {"queue": "secret", "payload": 1}]
    assert is_refused(await shop.post("/push", {"items": both}))
    assert (await shop.get("/pop/queue/shop.a")).code == "queue_not_found"
    assert is_refused(
        await shop.post("/transaction", {"operations": [{"type": "push", "items": both}]})
    )


async def test_a_rejection_doesnt_reveal_whether_the_object_exists(
    admin: Caller, shop: Caller
) -> None:
    await admin.push("secret")
    there, absent = [
        (await shop.get(f"/pop/queue/{queue}")).body for queue in ("secret", "nothing")
    ]
    for body in (there, absent):
        del body["requestId"]
    assert there == absent


async def test_pops_and_configuration_out_of_scope_are_rejected(
    admin: Caller, shop: Caller
) -> None:
    await admin.post("/configure", {"queue": "secret", "namespace": "n", "task": "t"})
    for path in ("/pop/queue/secret", "/pop/queue/none", "/pop/queue/secret/partition/p"):
        assert is_refused(await shop.get(path))
    for scope in ({"namespace": "n"}, {"task": "t"}, {"queue": "secret"}):
        assert is_refused(await shop.post("/pop", scope))
    for queue in ("secret", "none"):
        assert is_refused(await shop.post("/configure", {"queue": queue}))


async def test_a_message_out_of_scope_cannot_be_acknowledged_by_any_reference(
    admin: Caller, shop: Caller
) -> None:
    await admin.post("/push", {"items": [{"queue": "secret", "payload": 1, "transactionId": "t1"}]})
    await shop.push("shop.a")
    own = await pop(shop, "shop.a")
    message = await pop(admin, "secret")
    id_, lease = message["id"], message["leaseId"]
    partition = message["partitionId"]
    missing = message_id(10**9, 0)
    for named in (
        {"id": id_},
        {"id": id_, "leaseId": lease},
        {"id": id_, "leaseId": own["leaseId"]},
        {"id": missing},
        {"id": missing, "leaseId": lease},
        {"id": "nonsense"},
        {"transactionId": "t1"},
        {"transactionId": "t1", "leaseId": lease},
        {"transactionId": "t1", "partitionId": partition},
        {"transactionId": "t1", "partitionId": "0.999999999"},
        {"transactionId": "t1", "partitionId": "nonsense"},
        {"transactionId": id_},
        {"transactionId": id_, "leaseId": lease},
        {"transactionId": id_, "leaseId": own["leaseId"]},
        {"transactionId": "t1", "partitionId": own["partitionId"], "id": id_},
    ):
        assert is_refused(await shop.post("/ack", named)), named
        batch = {"acknowledgments": [{"id": own["id"], "leaseId": own["leaseId"]}, named]}
        assert is_refused(await shop.post("/ack/batch", batch)), named
        operations = [{"type": "ack", **named}]
        assert is_refused(await shop.post("/transaction", {"operations": operations})), named
    assert is_refused(await shop.post(f"/lease/{lease}/extend"))
    assert is_refused(await shop.post(f"/lease/{lease}/ack"))
    assert is_refused(await shop.post(f"/lease/{lease}/release"))
    assert is_refused(await shop.post("/lease/extend", {"leaseIds": [own["leaseId"], lease]}))
    push = {"type": "push", "items": [{"queue": "shop.a", "payload": 1}]}
    assert is_refused(
        await shop.post("/transaction", {"operations": [push], "requiredLeases": [lease]})
    )
    # Another tenant's lease together with an own message isn't a valid lease.
    mixed = {"id": own["id"], "leaseId": lease}
    assert (await shop.post("/ack", mixed)).code == "lease_lost"
    # The rejected calls changed nothing.
    assert (await admin.post("/ack", {"id": id_, "leaseId": lease})).body["success"]
    assert (await shop.post("/ack", {"id": own["id"], "leaseId": own["leaseId"]})).body["success"]


async def test_a_lost_lease_in_scope_is_reported_as_lost(shop: Caller) -> None:
    await shop.push("shop.a")
    message = await pop(shop, "shop.a")
    assert (await shop.post(f"/lease/{message['leaseId']}/release")).status == 200
    ack = {"id": message["id"], "leaseId": message["leaseId"]}
    assert (await shop.post("/ack", ack)).code == "lease_lost"
    assert (await shop.post(f"/lease/{message['leaseId']}/extend")).code == "lease_lost"


async def test_an_id_never_acknowledges_a_message_with_that_transaction_id(
    admin: Caller, shop: Caller
) -> None:
    await shop.push("shop.a")
    mine = (await shop.get("/pop/queue/shop.a")).body["messages"][0]
    item = {"queue": "secret", "payload": 1, "transactionId": mine["id"]}
    await admin.post("/push", {"items": [item]})
    theirs = await pop(admin, "secret")
    await shop.post(f"/lease/{mine['leaseId']}/release")
    assert (await shop.post("/ack", {"id": mine["id"]})).code == "message_not_found"
    assert (await admin.post("/ack", {"id": mine["id"]})).code == "message_not_found"
    assert (await admin.post("/ack", {"id": theirs["id"]})).body["success"]


async def test_a_namespace_scope_covers_its_queues(dsn: str, server: Server, admin: Caller) -> None:
    tenant = Caller(server, await make_key(dsn, scopes=[{"namespace": "eu-*"}]))
    made = await tenant.post("/configure", {"queue": "q", "namespace": "eu-1"})
    assert made.status == 200
    assert (await tenant.push("q")).status == 201
    assert (await tenant.post("/pop", {"namespace": "eu-1"})).status == 200
    assert is_refused(await tenant.post("/pop", {"namespace": "us-1"}))
    assert is_refused(await tenant.post("/pop", {"task": "t"}))
    # The tenant can neither use nor adopt queues without a namespace or in another one.
    await admin.post("/configure", {"queue": "other", "namespace": "us-1"})
    assert is_refused(await tenant.push("other"))
    assert is_refused(await tenant.push("new"))
    assert is_refused(await tenant.post("/configure", {"queue": "new"}))
    assert is_refused(await tenant.post("/configure", {"queue": "new", "namespace": "us-1"}))
    assert is_refused(await tenant.post("/configure", {"queue": "other", "namespace": "eu-1"}))
    assert is_refused(await tenant.post("/configure", {"queue": "q", "namespace": "us-1"}))
    # If another caller moves the queue to another namespace, the tenant loses access.
    await admin.post("/configure", {"queue": "q", "namespace": "us-1"})
    assert is_refused(await tenant.push("q"))


CALLS: dict[str, tuple[str, Any]] = {
    "produce": ("/push", {"items": [{"queue": "q", "payload": 1}]}),
    "consume": ("/pop/queue/q", {}),
    "browse": ("/auth/ticket", None),
    "configure": ("/configure", {"queue": "q"}),
    "admin": ("/tokens", {"name": "k", "permissions": ["admin"]}),
}


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        ("admin", {"produce", "consume", "browse", "configure", "admin"}),
        ("read-write", {"produce", "consume", "browse", "configure"}),
        ("read-only", {"browse"}),
        ("write-only", {"produce"}),
    ],
)
async def test_a_role_has_the_documented_permissions(
    dsn: str, server: Server, admin: Caller, role: str, allowed: set[str]
) -> None:
    await admin.push("q")
    caller = Caller(server, await make_key(dsn, role=role))
    replies = {name: await caller.post(path, body) for name, (path, body) in CALLS.items()}
    assert {name for name, reply in replies.items() if reply.status < 300} == allowed
    assert all(is_refused(replies[name]) for name in CALLS if name not in allowed)


async def test_each_permission_is_independent(dsn: str, server: Server, admin: Caller) -> None:
    await admin.push("q")
    for permission, (path, body) in CALLS.items():
        caller = Caller(server, await make_key(dsn, permissions=[permission]))
        assert (await caller.post(path, body)).status < 300
        others = [call for name, call in CALLS.items() if name != permission]
        assert all([is_refused(await caller.post(path, body)) for path, body in others])


async def test_a_transaction_needs_the_permissions_of_its_operations(
    dsn: str, server: Server
) -> None:
    producer = Caller(server, await make_key(dsn, permissions=["produce"]))
    consumer = Caller(server, await make_key(dsn, permissions=["consume"]))
    push = {"type": "push", "items": [{"queue": "q", "payload": 1}]}
    assert (await producer.post("/transaction", {"operations": [push]})).status == 200
    assert is_refused(await consumer.post("/transaction", {"operations": [push]}))
    message = await pop(consumer, "q")
    ack = {"type": "ack", "id": message["id"], "leaseId": message["leaseId"]}
    assert is_refused(await producer.post("/transaction", {"operations": [ack]}))
    assert (await consumer.post("/transaction", {"operations": [ack]})).status == 200


async def test_a_scope_of_queues_cannot_set_a_namespace(
    dsn: str, server: Server, admin: Caller, shop: Caller
) -> None:
    await admin.post("/configure", {"queue": "shop.a", "namespace": "shop"})
    # Consumers of a namespace must not receive messages of other tenants.
    for queue in ("shop.a", "shop.new"):
        moved = await shop.post("/configure", {"queue": queue, "namespace": "foreign"})
        assert is_refused(moved)
    # A request may repeat the queue's current namespace.
    assert (await shop.post("/configure", {"queue": "shop.a", "namespace": "shop"})).status == 200

    both = [{"queue": "shop.*"}, {"namespace": "mine*"}]
    owner = Caller(server, await make_key(dsn, scopes=both))
    mine = await owner.post("/configure", {"queue": "shop.b", "namespace": "mine-1"})
    other = await owner.post("/configure", {"queue": "shop.b", "namespace": "foreign"})
    assert mine.status == 200
    assert is_refused(other)
