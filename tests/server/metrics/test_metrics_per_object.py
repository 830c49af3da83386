"""`/metrics/per-object`: every queue and group, if enabled."""

from prometheus_client.parser import text_string_to_metric_families

from queen import telemetry
from tests.support.callers import KEYS, Caller, make_key
from tests.support.server import Reply, Server, until
from tests.support.verbs import pop, push

PATH = "/metrics/per-object"
ON = {"QUEEN_METRICS_PER_OBJECT": "true", "QUEEN_SAMPLE_SECONDS": "0.1"}


def values(reply: Reply) -> dict[tuple[str, ...], float]:
    """Values by name and labels."""
    assert reply.status == 200, reply
    assert reply.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(reply.body.decode())
        for sample in family.samples
    }


async def test_the_endpoint_is_disabled_by_default(server: Server) -> None:
    assert (await server.get(PATH)).code == "no_such_route"


async def test_any_process_returns_every_queue_and_group(dsn: str) -> None:
    async with Server(dsn, ON) as one, Server(dsn, ON) as two:
        for number in range(3):
            await push(one, f"q{number}", "aa", "bb")
        await pop(one, "q1", consumerGroup="g")

        async def are_there() -> bool:
            found = [values(await each.get(PATH)) for each in (one, two)]
            return all(each.get(("queen_deliveries", "q1", "g")) == 1 for each in found)

        await until(are_there)
        found = values(await two.get(PATH))
        assert {name for name, *_ in found} == {metric.name for metric in telemetry.PER_OBJECT}
        assert found["queen_queue_messages", "q0"] == 2
        assert found["queen_queue_bytes", "q0"] == 8
        assert found["queen_partitions", "q1", "leased"] == 1
        assert found["queen_partitions", "q2", "ready"] == 1
        assert found["queen_group_lag_messages", "q1", "g"] == 2


async def test_the_response_can_be_filtered(dsn: str) -> None:
    async with Server(dsn, ON) as server:
        await server.post("/configure", {"queue": "a", "namespace": "shop", "task": "bill"})
        await server.post("/configure", {"queue": "b", "namespace": "shop"})
        await server.post("/configure", {"queue": "c"})

        async def names(**parameters: str) -> set[str]:
            found = values(await server.get(PATH, **parameters))
            return {queue for _, queue, *_ in found}

        async def are_there() -> bool:
            return await names() == {"a", "b", "c"}

        await until(are_there)
        assert await names(namespace="shop") == {"a", "b"}
        assert await names(task="bill") == {"a"}
        assert await names(queue="c") == {"c"}
        assert await names(queue="d") == set()
        assert (await server.get(PATH, nonsense="1")).code == "bad_request"


async def test_a_caller_sees_only_objects_in_its_scope(dsn: str) -> None:
    async with Server(dsn, {**ON, **KEYS}) as server:
        everybody = Caller(server, await make_key(dsn))
        shop = Caller(server, await make_key(dsn, scopes=[{"queue": "shop.*"}]))
        producer = Caller(server, await make_key(dsn, permissions=["produce"]))
        await everybody.push("shop.a")
        await everybody.push("secret")

        async def are_there() -> bool:
            found = values(await everybody.get(PATH))
            return {("queen_queue_messages", name) for name in ("shop.a", "secret")} <= set(found)

        await until(are_there)
        seen = values(await shop.get(PATH))
        assert {queue for _, queue, *_ in seen} == {"shop.a"}
        assert not values(await shop.get(PATH, queue="secret"))
        assert (await producer.get(PATH)).code == "forbidden"
