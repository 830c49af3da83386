"""How many workers there should be: up under a backlog, down when calm, still at a steady load."""

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


def test_a_backlog_of_busy_workers_doubles_them_up_to_the_most() -> None:
    assert decided(PILED) == 8
    assert decided(PILED, workers=12) == 16
    assert decided(PILED, workers=16) == 16
    assert decided(PILED, backlog=450) == 5  # No more than a backlog needs.


@pytest.mark.parametrize(
    "changed",
    [
        {"backlog": 400},  # Not above 100 for each, and done in time.
        {"busy": 0.3},  # They have time: a rate limit or a pause holds jobs back.
        {"drain_seconds": 20.0},  # Gone before the next look.
        {"cpu": 0.9},
        {"memory": 0.9},
        {"memory": 0.84, "worker_memory": 0.02},  # One more would be too much.
    ],
)
def test_more_workers_are_not_started_where_they_do_not_help(changed: dict[str, float]) -> None:
    before = {"drain_seconds": 50.0} if "backlog" in changed else {}
    seen = msgspec.structs.replace(PILED, **{**before, **changed})
    assert decided(seen) == 4


def test_memory_that_is_left_bounds_a_step() -> None:
    assert decided(PILED, memory=0.80, worker_memory=0.02) == 6


def test_few_jobs_that_take_long_are_a_reason_too() -> None:
    assert decided(PILED, backlog=30, drain_seconds=90.0) == 5
    assert decided(PILED, backlog=30, drain_seconds=None) == 5


def test_workers_go_after_three_calm_looks_and_never_below_the_least() -> None:
    scaling = Autoscaler(Limits(min_workers=2))
    assert [decided(CALM, scaling) for _ in range(3)] == [4, 4, 2]
    assert [decided(CALM, scaling, workers=2) for _ in range(5)] == [2] * 5


def test_one_look_that_is_not_calm_begins_the_count_anew() -> None:
    scaling = Autoscaler(Limits())
    busy = [0.1, 0.1, 0.9, 0.1, 0.1, 0.1]
    assert [decided(CALM, scaling, busy=each) for each in busy] == [4, 4, 4, 4, 4, 2]


def test_those_that_are_left_have_time_to_spare() -> None:
    """2.5 workers' worth of load: three would be above 0.7 of their time."""
    scaling = Autoscaler(Limits())
    assert {decided(CALM, scaling, busy=0.625) for _ in range(10)} == {4}


def test_a_pool_outside_its_bounds_is_brought_inside() -> None:
    assert decided(CALM, workers=20) == 16
    assert decided(CALM, Autoscaler(Limits(min_workers=6))) == 6


@pytest.mark.parametrize("load", [0.3, 0.9, 1.0, 1.6, 2.5, 4.4, 7.0, 11.3])
def test_a_steady_load_settles_and_does_not_flap(load: float) -> None:
    """``load`` is in workers; each does ten jobs a second, and a look comes every 30 s."""
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
    assert changes <= 1, history  # One that comes late is a load at the very edge.
    assert load <= history[-1] <= max(2 * load / 0.7 + 1, 2)


def test_a_recorded_burst_goes_up_and_comes_back() -> None:
    """Load of a pool of 10 jobs a worker, 50 ms each, and 10,000 of them at once."""
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
def test_limits_that_make_no_sense_are_refused(limits: dict[str, float]) -> None:
    with pytest.raises(errors.BadRequest):
        WorkerManager(**limits)  # pyright: ignore[reportArgumentType] - some are floats
