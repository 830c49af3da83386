"""
A server with two tenants that own the same kinds of objects.

Every name and value of a tenant contains the tenant's name, so that a leak shows as that word.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple
from uuid import uuid4

from queen.store.connection.options import Connecting
from queen.store.store import Store
from tests.support.callers import KEYS, Caller, make_key
from tests.support.server import Reply, Server

Json = dict[str, Any]

TENANTS: Final = ("acme", "zeta")
GROUP: Final = "readers"
"""A consumer group of both tenants, each in its own queues."""
TRACE: Final = "deploy"
"""A trace name that both tenants use."""
PUSHED: Final = 11
BURIED: Final = 2
"""Messages and dead letters that `populate` creates."""
_ENVIRONMENT: Final = {
    **KEYS,
    "QUEEN_COUNTERS_FLUSH_SECONDS": "0.2",
    "QUEEN_SAMPLE_SECONDS": "0.2",
    "QUEUE_DEPTH_UPDATE_INTERVAL": "200",
    "SYSTEM_STATS_UPDATE_INTERVAL": "200",
    "QUEEN_METRICS_PER_OBJECT": "true",
}


class Owned(NamedTuple):
    """Values for the parameters in paths. All name objects of one tenant, or missing objects."""

    queue: str
    jobs: str
    namespace: str
    task: str
    group: str
    message_id: str
    partition_id: str
    transaction_id: str
    dead_letter: str
    job: str
    schedule: str
    workflow: str
    trace: str
    pipeline: str
    operation: str


NOTHING: Final = Owned(
    queue="nobody.bills",
    jobs="nobody.jobs",
    namespace="nobody-hr",
    task="nobody-layoffs",
    group="nobody",
    message_id="00000000-7fff-7fff-8000-00000000ffff",
    partition_id="0.99999999",
    transaction_id="nobody-1",
    dead_letter="0.99999999",
    job="nobody-1",
    schedule="nobody-nightly",
    workflow="nobody-run",
    trace="nobody-trace",
    pipeline="nobody-lake",
    operation="99999999",
)
"""Names without objects."""


class World(NamedTuple):
    """The server, its administrator, and the objects of each tenant."""

    server: Server
    store: Store
    admin: Caller
    callers: dict[str, Caller]
    owned: dict[str, Owned]


def scopes_of(tenant: str) -> list[dict[str, str]]:
    """Queues by name, and those of the tenant's namespaces."""
    return [{"queue": f"{tenant}.*"}, {"namespace": f"{tenant}-*"}]


@asynccontextmanager
async def two_tenants(dsn: str) -> AsyncGenerator[World]:
    """Start a server and fill it with objects of both tenants."""
    store = await Store.open(dsn, connecting=Connecting(connections=1))
    try:
        for tenant in TENANTS:  # The server samples pipelines when it starts, then every minute.
            await _run_pipeline(store, f"{tenant}-lake-0", f"{tenant}.bills-0")
        async with Server(dsn, _ENVIRONMENT) as server:
            admin = Caller(server, await make_key(dsn, name="ops"))
            callers = {
                tenant: Caller(
                    server,
                    await make_key(dsn, role="admin", scopes=scopes_of(tenant), name=tenant),
                )
                for tenant in TENANTS
            }
            owned = {
                tenant: await populate(store, callers[tenant], tenant, number=0)
                for tenant in TENANTS
            }
            yield World(server, store, admin, callers, owned)
    finally:
        await store.close()


async def populate(store: Store, caller: Caller, tenant: str, *, number: int) -> Owned:
    """Create some of everything. Another number creates more."""
    queue, jobs = f"{tenant}.bills-{number}", f"{tenant}.jobs-{number}"
    for name, namespace, task in (
        (queue, "hr", "layoffs"),
        (f"{tenant}.merger-talks-{number}", "legal", "project-x"),
        (f"{tenant}.payroll-{number}", "board", "pay"),
    ):
        made = {"namespace": f"{tenant}-{namespace}-{number}", "task": f"{tenant}-{task}-{number}"}
        await _ok(caller.post("/configure", {"queue": name, **made}))
    await _ok(caller.post("/configure", {"queue": jobs, "options": {"ordered": False}}))
    message = await _deliver(caller, tenant, queue, f"{tenant}-{number}")
    letters = await _ok(caller.get("/dlq", queue=queue))
    job = await _work(caller, tenant, jobs, number)
    purged = f"{tenant}.payroll-{number}"
    operation = await _ok(caller.post(f"/resources/queues/{purged}/purge", {"scope": "all"}))
    for name in (TRACE, f"{tenant}-trace-{number}"):
        event = {"traceName": name, "eventType": f"{tenant}-event", "data": {"by": tenant}}
        named = {"transactionId": message["transactionId"], "partitionId": message["partitionId"]}
        await _ok(caller.post("/traces", {**named, **event}))
    await _run_pipeline(store, f"{tenant}-lake-{number}", queue)
    await _archive(store, f"{tenant}-lake-{number}", queue)
    return Owned(
        queue=queue,
        jobs=jobs,
        namespace=f"{tenant}-hr-{number}",
        task=f"{tenant}-layoffs-{number}",
        group=GROUP,
        message_id=message["id"],
        partition_id=message["partitionId"],
        transaction_id=message["transactionId"],
        dead_letter=letters["messages"][0]["id"],
        job=job,
        schedule=f"{tenant}-nightly-{number}",
        workflow=f"{tenant}-run-{number}",
        trace=f"{tenant}-trace-{number}",
        pipeline=f"{tenant}-lake-{number}",
        operation=operation["operation"]["id"],
    )


async def _deliver(caller: Caller, tenant: str, queue: str, prefix: str) -> Json:
    """Create waiting messages, a leased one and two dead letters. Return the first message."""
    items = [
        {
            "queue": queue,
            "partition": f"{tenant}-{at % 2}",
            "payload": {"secret": tenant},
            "transactionId": f"{prefix}-message-{at}",
        }
        for at in range(4)
    ]
    await _ok(caller.post("/push", {"items": items}))
    dead: list[Json] = []
    for _ in range(2):
        popped = await _ok(caller.get(f"/pop/queue/{queue}", consumerGroup=GROUP))
        (message,) = popped["messages"]
        ack = {"id": message["id"], "leaseId": message["leaseId"], "consumerGroup": GROUP}
        await _ok(caller.post("/ack", {**ack, "status": "dlq", "error": f"{tenant} is out"}))
        dead.append(message)
    await _ok(caller.get(f"/pop/queue/{queue}", consumerGroup=GROUP))
    await _ok(caller.get(f"/pop/queue/{queue}", consumerGroup=f"{tenant}-audit"))
    return dead[0]


async def _work(caller: Caller, tenant: str, jobs: str, number: int) -> str:
    """Create jobs, two schedules, two workflows with a fan-out, and a worker. Return a job's id."""
    added = [
        await _ok(caller.post("/jobs", {"queue": jobs, "name": f"{tenant}-job", "data": tenant}))
        for _ in range(2)
    ]
    delayed = {"queue": jobs, "name": f"{tenant}-job", "delaySeconds": 3600}
    await _ok(caller.post("/jobs", delayed))
    for name in ("nightly", "weekly"):
        schedule = {"name": f"{tenant}-{name}-{number}", "queue": jobs, "cron": "0 3 * * *"}
        await _ok(caller.post("/schedules", {**schedule, "payload": {"by": tenant}}))
    for name in ("run", "rerun"):
        step = {"name": "fan", "queue": jobs, "job": f"{tenant}-step", "over": [tenant, tenant]}
        flow = {
            "id": f"{tenant}-{name}-{number}",
            "name": f"{tenant}-flow",
            "metadata": {"correlationId": f"{tenant}-order", "tags": [f"{tenant}-tag"]},
            "steps": [step],
        }
        await _ok(caller.post("/workflows", flow))
    await report(caller, tenant, jobs)
    return added[0]["id"]


async def report(caller: Caller, tenant: str, jobs: str) -> None:
    """Report a worker. The server lists it for some seconds."""
    told = {"worker": f"{tenant}-worker", "queues": [jobs], "jobs": []}
    await _ok(caller.post("/jobs/renew", {"leaseIds": [], "jobs": [], "report": told}))


async def _run_pipeline(store: Store, name: str, queue: str) -> None:
    run_id = str(uuid4())
    place = (f"{name}.table", None)
    await store.database.fetch("begin_pipeline", name, run_id, "archive", [queue], *place)
    known = ("running", [queue], None, 777, 1.5, 3, 10, 5.0, 100, None, None, None)
    await store.database.fetch("report_pipeline", name, run_id, *known)


async def _archive(store: Store, name: str, queue: str) -> None:
    """Open an archive and hold its queue."""
    await store.database.fetch("open_archive", name, queue, "iceberg", f"/lake/{name}")
    await store.database.fetch("hold_archive", name)


async def _ok(asked: Any) -> Json:  # noqa: ANN401 - an awaitable of a Reply
    reply: Reply = await asked
    assert reply.status in (200, 201, 202), reply
    return reply.body
