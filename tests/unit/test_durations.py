"""Durations: with a unit, as a timedelta, or as a number that is too small for milliseconds."""

from collections.abc import Callable
from datetime import timedelta
from typing import cast

import pytest

from queen import Queen, Retry, errors
from queen.client.durations import Duration, millis_of, seconds_of
from queen.jobs import Backoff, QueueManager, Rate, Step, Worker, WorkerManager
from queen.jobs.envelope import item_of


def jobs() -> QueueManager:
    return QueueManager(Queen("http://localhost:1"))


@pytest.mark.parametrize(
    ("given", "seconds"),
    [(30, 30.0), (0.5, 0.5), ("500ms", 0.5), ("2h", 7200.0), (timedelta(days=2), 172_800.0)],
)
def test_a_duration_is_a_number_a_text_or_a_timedelta(given: Duration, seconds: float) -> None:
    assert seconds_of(given, "delay", most=600) == seconds


@pytest.mark.parametrize("given", ["soon", "30", "", True, float("nan"), float("inf"), None, {}])
def test_anything_else_is_rejected_with_the_name_of_the_parameter(given: object) -> None:
    with pytest.raises(errors.BadRequest, match=r"delay=.* is not a duration"):
        seconds_of(cast("Duration", given), "delay")


def test_parameters_in_milliseconds_take_units_too() -> None:
    assert [millis_of(each, "idle_millis") for each in (250, "2s", timedelta(seconds=3))] == [
        250,
        2000,
        3000,
    ]


MISTAKEN: dict[str, Callable[[], object]] = {
    "duration='60000ms'": lambda: Rate(max=100, duration=60_000),
    "delay='2000ms'": lambda: Backoff("exponential", delay=2000),
    "max='60000ms'": lambda: Backoff("exponential", max=60_000),
    "delay='5000ms'": lambda: item_of("q", "n", None, {"delay": 5000}),
    "timeout='30000ms'": lambda: item_of("q", "n", None, {"timeout": 30_000}),
    "result_ttl='3600000ms'": lambda: item_of("q", "n", None, {"result_ttl": 3_600_000}),
    "ttl='3600000ms'": lambda: item_of("q", "n", None, {"ttl": 3_600_000}),
    "shutdown_timeout='30000ms'": lambda: Worker(jobs(), shutdown_timeout=30_000),
    "delay='15000ms'": lambda: Retry(delay=15_000),
    "timeout='60000ms'": lambda: Step("q", "j", timeout=60_000).wire(),
    "delay='10000ms'": lambda: jobs().queen.queue("q").items([{"data": 1, "delay": 10_000}]),
    "ttl='86400000ms'": lambda: jobs().queen.queue("q").items([{"data": 1, "ttl": 86_400_000}]),
}


@pytest.mark.parametrize("write", MISTAKEN)
def test_a_number_of_milliseconds_is_rejected_with_the_correct_text(write: str) -> None:
    with pytest.raises(errors.BadRequest) as failure:
        MISTAKEN[write]()
    assert write in str(failure.value)


async def test_milliseconds_are_rejected_before_a_request_is_sent() -> None:
    with pytest.raises(errors.BadRequest, match="grace='3600000ms'"):
        await jobs().clean_queue("q", grace=3_600_000)
    with pytest.raises(errors.BadRequest, match="timeout='60000ms'"):
        await jobs().job("q", "1").wait(timeout=60_000)


def test_a_field_with_its_unit_in_its_name_takes_any_number() -> None:
    (item,) = (
        jobs().queen.queue("q").items([{"data": 1, "delaySeconds": 10_000, "ttlSeconds": 10**7}])
    )
    assert (item.delay_seconds, item.ttl_seconds) == (10_000, 10**7)
    assert Step.of({"queue": "q", "job": "j", "timeoutSeconds": 7200}).wire()["timeoutSeconds"] == (
        7200
    )


def test_a_retry_after_hours_keeps_its_delay() -> None:
    """The parsed delay is in seconds and must not be checked as a number again."""
    assert Retry(delay="2h").delay == 7200


def test_builders_accept_timedeltas() -> None:
    queue = jobs().queen.queue("q").lease(timedelta(minutes=2)).timeout_millis("5s")
    queue = queue.idle_millis(timedelta(seconds=1)).renew_lease(True, "30s")
    choice = queue.choice
    assert (choice.lease_seconds, choice.timeout_millis) == (120, 5000)
    assert (choice.idle_millis, choice.renew_interval_millis) == (1000, 30_000)
    assert Rate(max=1, duration=timedelta(hours=1)).option()["durationMillis"] == 3_600_000
    buffered = jobs().queen.queue("q").buffer(time_millis="2s")
    assert buffered.buffering is not None
    assert buffered.buffering.time_millis == 2000


def test_mappings_of_other_job_queues_are_in_milliseconds() -> None:
    rate = Rate.of({"max": 100, "duration": 60_000})
    assert rate.option() == {"max": 100, "durationMillis": 60_000, "per": "queue"}
    backoff = Backoff.of({"type": "exponential", "delay": 2000})
    assert (backoff.wire.type, backoff.wire.delay_seconds) == ("exponential", 2.0)
    with pytest.raises(errors.BadRequest, match="limit"):
        Rate.of({"limit": 100, "duration": 60_000})
    with pytest.raises(errors.BadRequest, match="strategy"):
        Backoff.of({"strategy": "x"})


async def test_scaling_every_30000_seconds_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    manager = WorkerManager()
    monkeypatch.setattr(manager, "_opened", lambda: None)
    with pytest.raises(errors.BadRequest, match="interval='30000ms'"):
        manager.start_auto_scaling(30_000)
