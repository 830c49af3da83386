"""KEDA reads the number of jobs from a real server, where the generated triggers point."""

from typing import Any
from urllib.parse import urlsplit

import pytest

from queen.cli.generate.keda import Scaling, formula, objects
from tests.deploy.custom_resources import validate
from tests.deploy.files import documents, queen
from tests.support.callers import KEYS, Caller, make_key
from tests.support.server import Server

QUEUE = "reports/daily"


def value(body: Any, location: str) -> float:  # noqa: ANN401 - JSON
    """Read a path such as `queues.0.waiting`, as KEDA does."""
    for part in location.split("."):
        body = body[int(part)] if part.isdecimal() else body[part]
    return float(body)


async def test_the_triggers_count_waiting_and_active_jobs(dsn: str) -> None:
    async with Server(dsn, KEYS) as server:
        admin = Caller(server, await make_key(dsn))
        viewer = Caller(server, await make_key(dsn, role="read-only"))
        jobs = [{"queue": QUEUE, "name": "send", "data": n} for n in range(5)]
        added = await admin.post("/jobs/bulk", {"jobs": jobs})
        assert added.status == 201
        popped = await admin.get(f"/pop/queue/{QUEUE.replace('/', '%2F')}", batch=2)
        assert popped.status == 200

        scaled = objects(Scaling(deployment="workers", queues=[QUEUE]))[1]
        found: dict[str, float] = {}
        for trigger in scaled["spec"]["triggers"]:
            url = urlsplit(str(trigger["metadata"]["url"]))
            answer = await viewer.request("GET", f"{url.path}?{url.query}")
            assert answer.status == 200
            found[trigger["name"]] = value(answer.body, trigger["metadata"]["valueLocation"])

        assert found == {"waiting_0": 3, "active_0": 2}
        assert eval(scaled["spec"]["advanced"]["scalingModifiers"]["formula"], found) == 5


@pytest.mark.parametrize(("queues", "expected"), [(["a"], 5), (["a", "b"], 7)])
def test_the_formula_is_the_largest_number_of_jobs(queues: list[str], expected: int) -> None:
    values = {"waiting_0": 3, "active_0": 2, "waiting_1": 7, "active_1": 0}
    assert eval(formula(len(queues)), values) == expected


def test_the_command_prints_valid_objects() -> None:
    arguments = ("generate", "keda", "mailer", "email", "reports", "-c", "20", "--max", "40")
    printed = queen(*arguments, "--server", "http://q:6632/")
    found = documents(printed.out)
    assert [each["kind"] for each in found] == ["TriggerAuthentication", "ScaledObject"]
    for each in found:
        validate(each)
    spec = found[1]["spec"]
    assert all("http://q:6632/api/v1/" in each["metadata"]["url"] for each in spec["triggers"])
    assert spec["advanced"]["scalingModifiers"]["target"] == "20"
    assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (0, 40)
    assert queen("generate", "keda", "m", "q", "--min", "5", "--max", "2").code == 2
