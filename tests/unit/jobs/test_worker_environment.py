"""WORKER_CONCURRENCY and LOG_LEVEL of workers."""

import logging
from collections.abc import Iterator

import pytest

from queen import Queen, errors
from queen.jobs import QueueManager, Worker
from queen.jobs.environment import log_to_stderr, set_log_level

LOGGERS = [logging.getLogger(name) for name in ("queen.jobs", "queen.client")]


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    """Restore log levels, because loggers belong to the whole process."""
    before = [logger.level for logger in LOGGERS]
    yield
    for logger, level in zip(LOGGERS, before, strict=True):
        logger.setLevel(level)


def worker(concurrency: int | None = None) -> Worker:
    return Worker(QueueManager(Queen("http://localhost:1")), concurrency=concurrency)


def test_a_worker_takes_its_concurrency_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert worker().concurrency == 10
    monkeypatch.setenv("WORKER_CONCURRENCY", "3")
    assert worker().concurrency == 3
    assert worker(5).concurrency == 5


def test_an_invalid_concurrency_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("many", "0", "-1"):
        monkeypatch.setenv("WORKER_CONCURRENCY", text)
        with pytest.raises(errors.BadSettings, match="WORKER_CONCURRENCY"):
            worker()


def test_a_worker_process_uses_the_log_level_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log_to_stderr()
    assert [logger.level for logger in LOGGERS] == [logging.INFO, logging.INFO]
    monkeypatch.setenv("LOG_LEVEL", "error")
    log_to_stderr()
    assert [logger.level for logger in LOGGERS] == [logging.ERROR, logging.ERROR]
    monkeypatch.setenv("LOG_LEVEL", "loud")
    with pytest.raises(errors.BadSettings, match="LOG_LEVEL='loud'"):
        log_to_stderr()


def test_an_application_that_set_a_level_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOG_LEVEL", "debug")
    LOGGERS[0].setLevel(logging.CRITICAL)
    LOGGERS[1].setLevel(logging.NOTSET)
    set_log_level()
    assert [logger.level for logger in LOGGERS] == [logging.CRITICAL, logging.DEBUG]
