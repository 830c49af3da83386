"""Copy a million messages from queue to queue on the cluster, and print the rates."""

# pyright: basic

import time
from pathlib import Path

import msgspec
import pytest

from tests.spark import filling
from tests.spark.cluster import Cluster
from tests.spark.copying import (
    Copy,
    assert_copied,
    driver_of,
    faults_of,
    kill_executor_at,
    prepare,
    staged,
)
from tests.spark.place import Place

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3_600)]

MESSAGES = 1_000_000
ANSWER_SECONDS = 1_800
KILLS = ("staged.1.0", "writing.3.0", "staged.5.1", "writing.7.1")


def million(dsn: str, tmp_path: Path, **read: str) -> Copy:
    """A copy of a million messages in ten batches."""
    copy = prepare(dsn, tmp_path, maxMessagesPerTrigger="100000", **read)
    filling.fill(dsn, "a", MESSAGES, partitions=100, transactions=100)
    return copy


def tell(capsys: pytest.CaptureFixture[str], name: str, seconds: float) -> None:
    with capsys.disabled():
        print(f"\n{name}: {MESSAGES / seconds:,.0f} msg/s, {seconds:.1f} s")


def test_a_million_messages_without_faults(
    cluster: Cluster, dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = msgspec.structs.replace(million(dsn, tmp_path), faults=None)
    with driver_of(Place.on(cluster), copy) as driver:
        answer = driver.answer(ANSWER_SECONDS)

    assert answer["failure"] == ""
    assert assert_copied(dsn) == MESSAGES
    assert staged(dsn) == 0
    tell(capsys, "queue to queue", answer["seconds"])


def test_a_million_messages_with_killed_executors(
    cluster: Cluster, dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = million(dsn, tmp_path, tasks="2")
    faults = faults_of(copy)
    for step in KILLS:
        faults.hold(step)
    with driver_of(Place.on(cluster), copy) as driver:
        driver.until("started")
        driver.go_on()
        began = time.monotonic()
        killed = {kill_executor_at(cluster, faults, step, driver) for step in KILLS}
        answer = driver.answer(ANSWER_SECONDS)

    assert answer["failure"] == ""
    assert len(killed) == len(KILLS)
    assert max(event["attempt"] for event in faults.events("staged")) >= 1
    assert assert_copied(dsn) == MESSAGES
    tell(capsys, f"with {len(killed)} executors killed", time.monotonic() - began)
