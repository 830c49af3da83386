"""Log one line per event, as JSON or for a console; never payloads or secrets."""

import logging
import sys
import traceback
from collections.abc import MutableMapping
from typing import Any, Final

import msgspec
import structlog

from queen.settings import Settings
from queen.telemetry import Event

_ENCODE: Final = msgspec.json.Encoder(enc_hook=str).encode
_MOST_CHARACTERS: Final = 500
_QUIET: Final = ("uvicorn", "uvicorn.error", "websockets", "asyncio")
"""Libraries whose log lines below warning are dropped."""

Log = structlog.typing.FilteringBoundLogger


def configure(settings: Settings) -> None:
    """Set up the log of this process; the logs of libraries go through it too."""
    level = getattr(logging, settings.log_level.upper())
    is_console = settings.log_format == "console"
    structlog.configure(
        processors=[
            structlog.stdlib.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
            _with_traceback,
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), timestamp_key="at")
            if is_console
            else _as_json,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(handlers=[_Forward()], level=max(level, logging.WARNING), force=True)
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
    # An unavailable database is logged once, not for each attempt to connect.
    logging.getLogger("asyncpg.pool").setLevel(logging.ERROR)


def get(**bound: object) -> Log:
    """Return a log whose lines have these fields."""
    log: Log = structlog.get_logger(**bound)
    return log


class _Forward(logging.Handler):
    """Forwards log records of libraries as one event, and those of the engine by name."""

    def emit(self, record: logging.LogRecord) -> None:
        level = "error" if record.levelno >= logging.ERROR else "warning"
        log = getattr(get(library=record.name), level)
        fields = {"error": record.exc_info[1]} if record.exc_info else {}
        event = getattr(record, "event", Event.LIBRARY)
        log(event, message=record.getMessage()[:_MOST_CHARACTERS], **fields)


def _with_traceback(
    logger: object, method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """
    Replace an exception by its type, the first line of its message, and its location.

    The rest of a message of PostgreSQL may quote rows with payloads.
    """
    del logger, method
    error = event.get("error")
    if isinstance(error, BaseException):
        event["error"] = describe(error)
        frames = [
            line for each in _chain(error) for line in (*_frames(each), f"{describe(each)}\n")
        ]
        event["traceback"] = "".join(frames)
    return event


def describe(error: BaseException) -> str:
    """Describe an exception in one bounded line."""
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0][:_MOST_CHARACTERS] if lines else ''}"


def _chain(error: BaseException) -> list[BaseException]:
    """Return the causes of an error, the first one first."""
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) and len(chain) < 10:
        chain.append(cause)
    return chain[::-1]


def _frames(error: BaseException) -> list[str]:
    return traceback.format_tb(error.__traceback__)


def _as_json(logger: object, method: str, event: MutableMapping[str, Any]) -> str:
    del logger, method
    first = {name: event.pop(name) for name in ("at", "level", "event") if name in event}
    return _ENCODE({**first, **event}).decode()
