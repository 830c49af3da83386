"""`queen.admin` covers every management route."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from queen import Message, Queen, errors
from queen.server.routes.table import ROUTES
from queen.wire.options import ConfigureRequest, QueueOptions
from tests.client.faults import Faulty

OTHERS = re.compile(
    r"/api/v1/(push|pop|ack|transaction|lease|configure|jobs|workflows|stream|openapi\.json)|/livez|/readyz|.*\{ref\}/\{"
)
"""Message routes, routes for `queen.jobs` and for machines, and aliases."""


def routes() -> set[str]:
    return {f"{each.method} {each.path}" for each in ROUTES if not OTHERS.match(each.path)}


def route_of(method: str, path: str) -> str | None:
    bare = path.partition("?")[0]
    fitting = [
        each
        for each in ROUTES
        if each.method == method
        and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", each.path), bare) is not None
    ]
    fitting.sort(key=lambda each: each.path.count("{"))
    return f"{method} {fitting[0].path}" if fitting else None


async def test_every_route_has_a_method(shared: Queen, name: str) -> None:
    shared.transport = faulty = Faulty(shared.transport)
    await queues_and_groups(shared, name)
    await messages_and_dead_letters(shared, name)
    await schedules(shared, name)
    await system(shared)
    await access(shared)

    met = {route_of(method, path) for method, path, _ in faulty.sent}
    assert routes() - met == set()


async def queues_and_groups(queen: Queen, name: str) -> None:
    admin = queen.admin
    queue = queen.queue(name).namespace("shop").task("bill")
    await queue.create()
    await queue.partition("p").push([{"data": n} for n in range(3)])
    await queen.queue(name).group("g").pop()
    assert (await admin.overview()).queues >= 1
    assert name in [each.name for each in (await admin.overview(worst=100)).worst]
    assert "shop" in [each.name async for each in admin.namespaces()]
    assert "bill" in [each.name async for each in admin.tasks()]
    assert [each.name async for each in admin.queues(namespace="shop")] == [name]
    assert (await admin.queue(name)).name == name
    (configured,) = [each async for each in admin.configurations(limit=1000) if each.queue == name]
    assert (configured.namespace, configured.options.lease_time) == ("shop", 300)
    assert (await admin.default_options()).lease_time == 300
    request = ConfigureRequest(queue=name, options=QueueOptions(lease_time=60))
    changed = await admin.configure(request, version=configured.version)
    assert changed.options.lease_time == 60
    with pytest.raises(errors.VersionMismatch):
        await admin.configure(request, version=configured.version)
    assert [each.name async for each in admin.partitions(name)] == ["p"]
    (delivery,) = [each async for each in admin.deliveries(name)]
    assert (await admin.release_delivery(name, delivery.id)).released
    assert (await admin.pause(name)).paused
    assert not (await admin.resume(name)).paused
    assert len([each async for each in admin.groups(queue=name)]) == 1
    assert len([each async for each in admin.group_partitions("g", name)]) == 1
    await admin.seek("g", name, to_start=True)
    await admin.seek("g", name, partition="p", offset=1)
    await admin.delete_group("g", name)
    await queen.queue(name).group("h").pop()
    await admin.delete_group("h")
    since = datetime.now(UTC) - timedelta(hours=1)
    await admin.analytics(namespace="shop")
    await admin.analytics_of_queues()
    await admin.analytics_of_queue(name, from_=since)
    await admin.throughput()
    await admin.queue_depths()
    await admin.series("pushed", queue=name)


async def messages_and_dead_letters(queen: Queen, name: str) -> None:
    admin = queen.admin
    one, two, three = [each.id or "" async for each in admin.messages(name)]
    assert (await admin.message(one)).id == one

    async def fail(message: Message[Any]) -> None:
        await message.trace({"traceName": name, "data": 1})
        raise ValueError("no")

    queue = queen.queue(name).config({"retryLimit": 0})
    await queue.create()
    await queue.limit(1).consume(fail)
    (letter,) = [each async for each in admin.dead_letters(queue=name)]
    assert (await admin.dead_letter(letter.id)).error_message == "ValueError: no"
    assert (await admin.dead_letter_errors(name)).errors[0].count == 1
    await admin.redrive(filter={"queue": name}, dryRun=True)
    await admin.delete_dead_letter(letter.id)
    await admin.give_up(two, error="hopeless")
    with pytest.raises(errors.NotRetryable):
        await admin.retry(three)
    (hopeless,) = [each.id async for each in admin.dead_letters(queue=name)]
    await admin.delete_dead_letters([hopeless])
    assert not [each async for each in admin.dead_letters(queue=name)]
    await admin.finished(await admin.purge_dead_letters(name))
    assert [each.name async for each in admin.trace_names(name)] == [name]
    assert len([each async for each in admin.traces(name)]) == 1
    events = admin.traces_of(letter.partition_id, letter.transaction_id)
    assert len([each async for each in events]) == 1
    await admin.redact(three)
    operation = await admin.finished(await admin.purge(name, scope="all"))
    assert (await admin.operation(operation.id)).state == "done"
    assert operation.id in [each.id async for each in admin.operations()]
    with pytest.raises(errors.QueenError):
        await admin.cancel_operation("0")
    await admin.finished(await admin.delete_queue(name))


async def schedules(queen: Queen, name: str) -> None:
    admin = queen.admin
    made = await admin.put_schedule(
        name, queue=name, cron="0 8 * * 1-5", data={"n": 1}, time_zone="Europe/Rome", missed="skip"
    )
    assert (made.time_zone, made.missed, bytes(made.payload)) == ("Europe/Rome", "skip", b'{"n":1}')
    assert [each.name async for each in admin.schedules(queue=name)] == [name]
    assert (await admin.schedule(name)).next_at == made.next_at
    assert (await admin.pause_schedule(name)).paused
    assert not (await admin.resume_schedule(name)).paused
    assert (await admin.run_schedule(name)).status == "queued"
    assert [each.data for each in await queen.queue(name).pop()] == [{"n": 1}]
    assert (await admin.delete_schedule(name)).success
    with pytest.raises(errors.NotFound):
        await admin.schedule(name)


async def system(queen: Queen) -> None:
    admin = queen.admin
    assert (await admin.tables()).tables
    assert (await admin.migrations()).applied
    assert [each async for each in admin.instances()]
    assert (await admin.settings()).settings
    assert (await admin.set_maintenance(True, of_pops=True)).enabled
    assert (await admin.maintenance(of_pops=True)).enabled
    await admin.set_maintenance(False, of_pops=True)
    assert not (await admin.maintenance()).enabled
    with_pushes = await admin.set_maintenance(False)
    assert not with_pushes.enabled
    assert (await admin.shards()).databases
    with pytest.raises(errors.RequestError):
        await admin.move_slots("two", slot=1)
    with pytest.raises(errors.RequestError):
        await admin.drain("two")
    with pytest.raises(errors.BadRequest, match="one database"):
        await admin.rebalance(dry_run=True)
    with pytest.raises(errors.RequestError):
        await admin.remove_database("two")
    assert (await admin.cluster()).revision
    assert await admin.pins() == []
    with pytest.raises(errors.BadRequest, match="one database"):
        await admin.pin("orders", "hot", "two")
    with pytest.raises(errors.BadRequest, match="one database"):
        await admin.unpin("orders", "hot")
    assert [each async for each in admin.pipelines()] == []
    with pytest.raises(errors.NotFound):
        await admin.pipeline("none")
    with pytest.raises(errors.NotFound):
        await admin.pipeline_series("none")
    assert [each async for each in admin.holds()] == []
    assert [each async for each in admin.archives()] == []
    with pytest.raises(errors.QueueNotFound):
        await admin.release_hold("none", "archive:none")
    with pytest.raises(errors.NotFound):
        await admin.drop_archive("none")
    assert (await admin.upkeep()).duties
    assert not (await admin.buffer()).enabled
    with pytest.raises(errors.NotFound):
        await admin.flush_buffer()
    with pytest.raises(errors.NotFound):
        await admin.retry_failed_buffer(doubtful=True)
    assert (await admin.health())["status"]
    assert "queen_" in await admin.metrics()
    with pytest.raises(errors.NoSuchRoute):
        await admin.metrics(per_object=True)


async def access(queen: Queen) -> None:
    admin = queen.admin
    assert (await admin.me()).kind == "anonymous"
    assert (await admin.ticket()).ticket
    made = await admin.create_token(name="ci", role="read-only", scopes=[{"queue": "a*"}])
    assert made.token.startswith("qk_")
    assert (await admin.rotate_token(made.id, grace_seconds=1)).token != made.token
    changed = await admin.change_token(made.id, name="cd", role="read-only", managed_by="shop")
    assert (changed.id, changed.name, changed.managed_by) == (made.id, "cd", "shop")
    assert made.id in [each.id async for each in admin.tokens()]
    assert (await admin.revoke_token(made.id)).revoked
    assert [each async for each in admin.audit()]
