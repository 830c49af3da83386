"""A stream from queue to queue copies each message once, even if its processes are killed."""

# pyright: basic

from pathlib import Path

import pytest

from tests.spark import filling, processes
from tests.spark.cluster import Cluster
from tests.spark.copying import (
    ANSWER_SECONDS,
    Copy,
    assert_copied,
    driver_of,
    faults_of,
    kill_executor_at,
    messages,
    prepare,
    published,
    staged,
    wait_until_held,
)
from tests.spark.place import Place

pytestmark = pytest.mark.nightly

MESSAGES = 1600
"""Over eight partitions in twenty transactions."""
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1",
    "spark.speculation.quantile": "0.5",
}


def checkpointed(copy: Copy, log: str) -> list[int]:
    """The batches that Spark has recorded as planned (`offsets`) or done (`commits`)."""
    files = (Path(copy.checkpoint) / log).glob("[0-9]*")
    return sorted(int(file.name) for file in files)


@pytest.mark.slow
@pytest.mark.timeout(900)  # Six drivers, one after the other.
def test_a_driver_may_be_killed_between_any_two_steps(
    place: Place, dsn: str, tmp_path: Path
) -> None:
    copy = prepare(dsn, tmp_path, maxMessagesPerTrigger="240", tasks="2")
    filling.fill(dsn, "a", MESSAGES)
    faults = faults_of(copy)
    seen: list[tuple[str, int, int, bool, int]] = []

    # One driver after the other on one checkpoint, each killed in the next batch.
    for step in ("writing.0", "staged.1", "publishing.2", "published.3", "planned.1"):
        faults.hold(step)
        with driver_of(place, copy) as driver:
            driver.until("started")
            driver.go_on()
            wait_until_held(faults, step, driver.log)
            planned, done = checkpointed(copy, "offsets"), checkpointed(copy, "commits")
            seen.append((step, planned[-1], len(done), staged(dsn) > 0, published(dsn)))
            driver.kill()
            assert not processes.is_alive(driver.pid)
        faults.release(step)
    with driver_of(place, copy) as driver:
        assert driver.answer(ANSWER_SECONDS)["failure"] == ""

    # Step, last planned batch, finished batches, staged rows exist, last published batch.
    assert seen == [
        ("writing.0", 0, 0, False, -1),
        ("staged.1", 1, 1, True, 0),
        ("publishing.2", 2, 2, True, 1),
        ("published.3", 3, 3, True, 3),
        ("planned.1", 3, 4, True, 3),
    ]
    assert assert_copied(dsn) == MESSAGES
    passed_over = [each["entries"] for each in faults.events("published", 3)]
    assert len(passed_over) == 2
    assert passed_over[1] == 0


def test_failed_tasks_and_a_killed_executor_are_recovered(
    cluster: Cluster, dsn: str, tmp_path: Path
) -> None:
    copy = prepare(dsn, tmp_path, tasks="2")
    filling.fill(dsn, "a", MESSAGES)
    faults = faults_of(copy)
    faults.fail("writing.0.0")
    faults.fail("staged.1.1")
    faults.hold("staged.2.0")
    faults.hold("writing.3.1")
    killed: list[int] = []
    with driver_of(Place.on(cluster), copy) as driver:
        driver.until("started")
        driver.go_on()
        for step in ("staged.2.0", "writing.3.1"):
            killed.append(kill_executor_at(cluster, faults, step, driver))
        answer = driver.answer(ANSWER_SECONDS)

    assert answer["failure"] == ""
    assert assert_copied(dsn) == MESSAGES
    for step, batch, task in (("writing", 0, 0), ("staged", 1, 1), ("staged", 2, 0)):
        attempts = [each["attempt"] for each in faults.events(step, batch) if each["task"] == task]
        assert attempts == [0, 1], (step, batch, task)
    assert len(set(killed)) == 2
    assert staged(dsn) > 0  # From attempts that wrote and did not count.


@pytest.mark.slow
def test_one_of_two_attempts_that_wrote_counts(cluster: Cluster, dsn: str, tmp_path: Path) -> None:
    copy = prepare(dsn, tmp_path, tasks="2", maxMessagesPerTrigger="800")
    filling.fill(dsn, "a", MESSAGES)
    faults = faults_of(copy)
    faults.hold("staged.0.1")  # Only the first attempt, which is slow.
    with driver_of(Place.on(cluster), copy, **SPECULATION) as driver:
        assert driver.answer(ANSWER_SECONDS)["failure"] == ""

    wrote = [each for each in faults.events("staged", 0) if each["task"] == 1]
    assert {each["attempt"] for each in wrote} >= {0, 1}
    assert {each["messages"] for each in wrote} == {wrote[0]["messages"]}
    assert faults.is_held("staged.0.1")
    assert (Path(copy.faults or "") / "staged.0.1.hold").exists()  # It was never released.
    assert staged(dsn) > 0  # Rows that the slow attempt staged.
    assert messages(dsn, "b") == assert_copied(dsn) == MESSAGES
