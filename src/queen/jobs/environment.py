"""Settings of workers from the environment: WORKER_CONCURRENCY and LOG_LEVEL."""

import logging
import os
import sys
from typing import Final

from queen import errors

DEFAULT_CONCURRENCY: Final = 10

_LOGGERS: Final = ("queen.client", "queen.jobs")
_LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


def concurrency_of(given: int | None) -> int:
    """Return concurrent jobs per queue: the argument, else WORKER_CONCURRENCY, else 10."""
    if given is not None:
        if given < 1:
            raise errors.BadRequest("a worker runs at least one job at a time")
        return given
    text = os.environ.get("WORKER_CONCURRENCY", "").strip()
    if not text:
        return DEFAULT_CONCURRENCY
    if not (text.isdecimal() and int(text) >= 1):
        raise errors.BadSettings(f"WORKER_CONCURRENCY={text!r}: write a number of at least 1")
    return int(text)


def log_level() -> int | None:
    """Return LOG_LEVEL as a number, or None if it is not set."""
    text = os.environ.get("LOG_LEVEL", "").strip().lower()
    if text and text not in _LEVELS:
        raise errors.BadSettings(f"LOG_LEVEL={text!r}: write debug, info, warning or error")
    return _LEVELS.get(text)


def set_log_level() -> None:
    """Apply LOG_LEVEL to Queen's loggers, unless the application has set their level."""
    if (level := log_level()) is not None:
        for logger in map(logging.getLogger, _LOGGERS):
            if logger.level == logging.NOTSET:
                logger.setLevel(level)


def log_to_stderr() -> None:
    """Log to stderr in a worker process, from LOG_LEVEL or info."""
    level = log_level()
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    for logger in map(logging.getLogger, _LOGGERS):
        logger.setLevel(logging.INFO if level is None else level)
