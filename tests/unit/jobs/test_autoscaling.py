"""The number of workers: up under a backlog, down when idle, constant at a steady load."""

import random
from itertools import pairwise

import msgspec
import pytest

from queen import errors
from queen.jobs import WorkerManager
from queen.jobs.pool.autoscaling import Autoscaler, Limits, Load

CALM = Load(workers=4, backlog=0, busy=0.1, drain_seconds=0.0, cpu=0.2, memory=0.3)
PILED = Load(workers=4, backlog=5_000, busy=1.0, drain_seconds=500.0, cpu=0.5, memory=0.3)


def decided(seen: Load, scaling: Autoscaler | None = None, **changed: object) -> int:
    scaling = scaling or Autoscaler(Limits())
    seen = msgspec.structs.replace(seen, **changed)
    return scaling.decide(seen, interval_seconds=30).workers


def test_a_backlog_of_busy_workers_doubles_them_up_to_the_maximum() -> None:
    assert decided(PILED) == 8
    assert decided(PILED, workers=12) == 16
    assert decided(PILED, workers=16) == 16
    assert decided(PILED, backlog=450) == 5  # At most the number that the backlog needs.


@pytest.mark.parametrize(
    "changed",
    [
        {"backlog": 400},  # At most 100 per worker, and done in time.
        {"busy": 0.3},  # The workers are idle: a rate limit or a pause delays the jobs.
        {"drain_seconds": 20.0},  # Done before the next check.
        {"cpu": 0.9},
        {"memory": 0.9},
        {"memory": 0.84, "worker_memory": 0.02},  # One more would need too much memory.
    ],
)
def test_workers_are_not_added_if_they_do_not_help(changed: dict[str, float]) -> None:
    before = {"drain_seconds": 50.0} if "backlog" in changed else {}
    seen = msgspec.structs.replace(PILED, **{**before, **changed})
    assert decided(seen) == 4


def test_free_memory_limits_a_step() -> None:
    assert decided(PILED, memory=0.80, worker_memory=0.02) == 6


def test_a_few_slow_jobs_also_add_workers() -> None:
    assert decided(PILED, backlog=30, drain_seconds=90.0) == 5
    assert decided(PILED, backlog=30, drain_seconds=None) == 5


def test_workers_are_removed_after_three_idle_checks_down_to_the_minimum() -> None:
    scaling = Autoscaler(Limits(min_workers=2))
    assert [decided(CALM, scaling) for _ in range(3)] == [4, 4, 2]
    assert [decided(CALM, scaling, workers=2) for _ in range(5)] == [2] * 5


def test_one_busy_check_restarts_the_count() -> None:
    scaling = Autoscaler(Limits())
    busy = [0.1, 0.1, 0.9, 0.1, 0.1, 0.1]
    assert [decided(CALM, scaling, busy=each) for each in busy] == [4, 4, 4, 4, 4, 2]


def test_the_remaining_workers_have_spare_time() -> None:
    """The load is 2.5 workers: three would be busy for more than 0.7 of their time."""
    scaling = Autoscaler(Limits())
    assert {decided(CALM, scaling, busy=0.625) for _ in range(10)} == {4}


def test_a_pool_outside_its_limits_is_corrected() -> None:
    assert decided(CALM, workers=20) == 16
    assert decided(CALM, Autoscaler(Limits(min_workers=6))) == 6


@pytest.mark.parametrize("load", [0.3, 0.9, 1.0, 1.6, 2.5, 4.4, 7.0, 11.3])
def test_a_steady_load_does_not_flap(load: float) -> None:
    """``load`` is in workers. Each does ten jobs per second, with a check every 30 seconds."""
    scaling, rng = Autoscaler(Limits()), random.Random(7)
    workers, backlog, seconds, rate = 1, 0.0, 30.0, 10.0
    history: list[int] = []
    for _ in range(400):
        arrived = load * rate * seconds * rng.uniform(0.9, 1.1)
        can = workers * rate * seconds
        done = min(backlog + arrived, can)
        backlog += arrived - done
        seen = Load(
            workers=workers,
            backlog=int(backlog),
            busy=done / can,
            drain_seconds=backlog / (done / seconds),
            cpu=0.5,
            memory=0.3,
        )
        workers = scaling.decide(seen, interval_seconds=seconds).workers
        history.append(workers)

    changes = sum(a != b for a, b in pairwise(history[100:]))
    assert changes <= 1, history  # A late change means that the load is right at a threshold.
    assert load <= history[-1] <= max(2 * load / 0.7 + 1, 2)


def test_a_recorded_burst_scales_up_and_back() -> None:
    """Load of a pool with 10 jobs per worker, 50 ms each, and 10,000 jobs in one burst."""
    scaling, workers, backlog = Autoscaler(Limits(max_workers=8)), 1, 10_000.0
    history: list[int] = []
    for _ in range(60):
        done = min(backlog, workers * 200.0)
        busy = done / (workers * 200.0)
        backlog -= done
        seen = Load(
            workers=workers,
            backlog=int(backlog),
            busy=busy,
            drain_seconds=backlog / done if done else None,
            cpu=0.5,
            memory=0.3,
        )
        workers = scaling.decide(seen, interval_seconds=1).workers
        history.append(workers)

    assert max(history) == 8
    assert history[-1] == 1
    top = history.index(8)
    assert history[:top] == sorted(history[:top])
    assert history[top:] == sorted(history[top:], reverse=True)


@pytest.mark.parametrize(
    "limits",
    [
        {"min_workers": 0},
        {"min_workers": 5, "max_workers": 4},
        {"scale_up_threshold": 10},
        {"scale_down_threshold": 0},
        {"cpu_threshold": 1.5},
        {"memory_threshold": 0.0},
    ],
)
def test_invalid_limits_are_rejected(limits: dict[str, float]) -> None:
    with pytest.raises(errors.BadRequest):
        WorkerManager(**limits)  # pyright: ignore[reportArgumentType] - some are floats
