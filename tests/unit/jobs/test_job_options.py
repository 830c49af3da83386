"""Invalid job options are rejected when they are set, before a worker reads them."""

from typing import Any

import msgspec
import pytest

from queen import Queen, errors
from queen.jobs import QueueManager
from queen.jobs.envelope import item_of
from queen.wire.jobs import Envelope, Link


def chain(given: dict[str, Any]) -> tuple[Link, ...]:
    item = item_of("ingest", "ingest-data", {"source": "s3://bucket/data.csv"}, given)
    return msgspec.json.decode(item.payload, type=Envelope).chain


@pytest.mark.parametrize(
    "link",
    [
        {"queueName": "process", "jobName": "process-data", "data": {"format": "csv"}},
        {"queue": "process", "name": "process-data", "data": {"format": "csv"}},
    ],
)
def test_a_chained_job_accepts_both_sets_of_names(link: dict[str, Any]) -> None:
    (found,) = chain({"chain_to": [link]})
    assert (found.queue, found.name) == ("process", "process-data")
    assert isinstance(found.data, msgspec.Raw)
    assert msgspec.json.decode(found.data) == {"format": "csv"}


def test_a_chained_job_as_a_mapping_has_options_and_followers() -> None:
    last = {"queueName": "q", "jobName": "last"}
    (found,) = chain(
        {"chainTo": [{**last, "priority": 1, "delaySeconds": 7200, "chainTo": [last]}]}
    )
    assert (found.priority, found.delay_seconds) == (1, 7200)
    assert [each.name for each in found.chain] == ["last"]
    assert found.data is msgspec.UNSET


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ({"queueName": "q", "jobName": "n", "payload": 1}, "'payload'"),
        ({"jobName": "n"}, "needs 'queue' and 'name'"),
        ({"queue": "q"}, "needs 'queue' and 'name'"),
        ({"queue": "", "name": "n"}, "invalid job"),
        ({"queue": "q", "name": "n", "priority": 9}, "invalid job"),
        ("notify", "mapping"),
        (Link(queue="q", name="n", attempts=0), "invalid job"),
    ],
)
def test_a_chained_job_that_cannot_run_is_rejected(link: object, problem: str) -> None:
    with pytest.raises(errors.BadRequest, match=problem):
        chain({"chain_to": [link]})


def test_a_chain_is_a_list() -> None:
    with pytest.raises(errors.BadRequest, match="list of jobs"):
        chain({"chain_to": {"queue": "q", "name": "n"}})


def test_an_option_of_another_job_queue_names_its_replacement() -> None:
    with pytest.raises(errors.BadRequest, match=r"removeOnComplete.*clean_queue"):
        item_of("q", "n", None, {"removeOnComplete": {"age": 3600}})


def test_default_job_options_are_checked_when_the_queue_is_registered() -> None:
    jobs = QueueManager(Queen("http://localhost:1"))
    options: Any = {"attemps": 5}
    with pytest.raises(errors.BadRequest, match="attemps"):
        jobs.register_queue("q", default_job_options=options)
