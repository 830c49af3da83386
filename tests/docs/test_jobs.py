"""The jobs reference covers everything in `queen.jobs`."""

import inspect
import re
from pathlib import Path

import pytest

import queen.jobs
from queen.jobs import (
    Job,
    JobHandle,
    JobOptions,
    JobPriority,
    JobTransaction,
    Processor,
    QueueManager,
    Worker,
    WorkerManager,
    WorkerStats,
)
from queen.jobs.options import ProcessorOptions

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "jobs.md").read_text("utf-8")
WORDS = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", PAGE))))
PLUMBING = {"followed_in", "is_plain", "lend_loop", "part", "pushed", "withdraw"}
"""Internal methods of workers."""


def public(kind: type) -> set[str]:
    names = {name for name, _ in inspect.getmembers_static(kind) if not name.startswith("_")}
    return names - PLUMBING


@pytest.mark.parametrize(
    "kind",
    [QueueManager, Processor, Job, JobTransaction, JobHandle, Worker, WorkerManager, WorkerStats],
)
def test_every_member_is_on_the_page(kind: type) -> None:
    assert public(kind) - WORDS == set()


def test_every_name_is_on_the_page() -> None:
    assert set(queen.jobs.__all__) - WORDS == set()


def test_every_option_is_on_the_page() -> None:
    assert set(JobOptions.__annotations__) - WORDS == set()
    assert set(ProcessorOptions.__annotations__) - WORDS == set()
    assert {each.name for each in JobPriority} - WORDS == set()
    for function in (
        QueueManager.register_queue,
        QueueManager.processor,
        QueueManager.cron,
        Worker.__init__,
        WorkerManager.__init__,
    ):
        assert set(inspect.signature(function).parameters) - {"self", "app"} - WORDS == set()
