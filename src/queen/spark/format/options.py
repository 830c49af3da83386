"""The options of the format ``queen``: parsed, checked, and unknown ones rejected."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Final, Literal, NamedTuple

import msgspec

from queen import errors
from queen.arrow.columns import COLUMNS
from queen.arrow.databases import parse
from queen.redacted import redacted

Offsets = int | Mapping[str, int]
_Offset = Annotated[int, msgspec.Meta(ge=0)]


class Option(NamedTuple):
    """A name for ``.option``. docs/reference/spark.md documents all of them."""

    name: str
    of: Literal["both", "source", "sink"]


_SOURCE: Final = (
    *("databases", "readDsn", "columns", "schema", "partitions", "startingOffset", "endingOffset"),
    *("startingTimestamp", "endingTimestamp", "maxMessagesPerTrigger", "maxBytesPerTrigger"),
    *("failOnDataLoss", "trailingBatch", "tasks", "tier", "archive", "storage", "catalog"),
)
OPTIONS: Final = (
    *(Option(name, "both") for name in ("dsn", "queue")),
    *(Option(name, "source") for name in _SOURCE),
    Option("txnAppId", "both"),
    Option("txnVersion", "sink"),
)
_BY_LOWER: Final = {option.name.lower(): option for option in OPTIONS}
_IGNORED: Final = frozenset({"path", "checkpointlocation", "queryname"})
"""Options of Spark itself, which it passes too."""
_MAX_MESSAGES: Final = 1_000_000
_OF_ONE: Final = ("readDsn", "tier", "archive", "storage", "catalog", "txnAppId", "trailingBatch")
"""Options that several databases don't have."""
_EARLIEST: Final = "earliest"
_LATEST: Final = "latest"


class SourceOptions(NamedTuple):
    """The options of a reader."""

    dsn: str
    queue: str
    columns: tuple[str, ...]
    payload_schema: str | None
    partitions: tuple[str, ...] | None
    starting_offset: Offsets | None
    """None reads all."""
    is_from_latest: bool
    ending_offset: Offsets | None
    starting_at: datetime | None
    ending_at: datetime | None
    max_messages: int
    max_bytes: int | None
    fail_on_data_loss: bool
    tasks: int | None
    txn_app_id: str | None
    has_trailing_batch: bool
    """An empty batch follows the last message of a named stream, so that windows close."""
    ledger_dsn: str
    """DSN of the primary, which stores the progress."""
    has_lake: bool
    """Also read messages that only the lake has."""
    archive: str | None
    storage: str
    """Options of the lake's object store, as JSON."""
    catalog: str | None
    """Options of the lake's catalog, as JSON. None is the catalog in Queen's database."""
    databases: Mapping[str, str] = {}
    """The DSN of each database by its name, if there are several."""

    @property
    def replica_dsn(self) -> str | None:
        """DSN of the replica, if messages are read from one."""
        return None if self.dsn == self.ledger_dsn else self.dsn

    def __repr__(self) -> str:
        return redacted(self)


class SinkOptions(NamedTuple):
    """The options of a writer."""

    dsn: str
    queue: str
    txn_app_id: str | None
    txn_version: int | None

    def __repr__(self) -> str:
        return redacted(self)


def source_options(given: Mapping[str, str], environment: Mapping[str, str]) -> SourceOptions:
    """Parse the options of the source. Raises InvalidOption."""
    read = _Reader(given, "source")
    databases = _databases(read)
    dsn = next(iter(databases.values()), None) or _dsn(read, environment)
    starting = read.text("startingOffset") or _EARLIEST
    ending = read.text("endingOffset") or _LATEST
    if ending == _EARLIEST:
        raise errors.InvalidOption("endingOffset: write latest, a number, or JSON by partition")
    return SourceOptions(
        dsn=read.text("readDsn") or dsn,
        ledger_dsn=dsn,
        queue=read.needed("queue"),
        columns=_columns(read),
        payload_schema=read.text("schema"),
        partitions=_names(read.given("partitions")),
        is_from_latest=starting == _LATEST,
        starting_offset=_offsets("startingOffset", starting),
        ending_offset=_offsets("endingOffset", ending),
        starting_at=read.instant("startingTimestamp"),
        ending_at=read.instant("endingTimestamp"),
        max_messages=read.number("maxMessagesPerTrigger") or _MAX_MESSAGES,
        max_bytes=read.number("maxBytesPerTrigger"),
        fail_on_data_loss=read.truth("failOnDataLoss", default=True),
        tasks=read.number("tasks"),
        txn_app_id=read.text("txnAppId"),
        has_trailing_batch=_has_trailing_batch(read),
        has_lake=_has_lake(read),
        archive=read.text("archive"),
        storage=read.text("storage") or "{}",
        catalog=read.text("catalog"),
        databases=databases if len(databases) > 1 else {},
    )


def sink_options(
    given: Mapping[str, str], environment: Mapping[str, str], *, is_stream: bool
) -> SinkOptions:
    """Parse the options of the sink. Raises InvalidOption."""
    read = _Reader(given, "sink")
    app_id, version = read.text("txnAppId"), read.number("txnVersion", least=0)
    if version is not None and is_stream:
        raise errors.InvalidOption("txnVersion: remove it, because a stream numbers its batches")
    if not is_stream and (app_id is None) is not (version is None):
        raise errors.InvalidOption("txnAppId and txnVersion must be set together")
    return SinkOptions(
        dsn=_dsn(read, environment),
        queue=read.needed("queue"),
        txn_app_id=app_id,
        txn_version=version,
    )


class _Reader:
    """Reads options one by one. Rejects unknown options."""

    def __init__(self, given: Mapping[str, str], of: Literal["source", "sink"]) -> None:
        self._given: dict[str, str] = {}
        for name, value in given.items():
            if name.lower() in _IGNORED:
                continue
            option = _BY_LOWER.get(name.lower())
            if option is None or option.of not in ("both", of):
                known = ", ".join(each.name for each in OPTIONS if each.of in ("both", of))
                raise errors.InvalidOption(f"the {of} has no option {name}; it has {known}")
            self._given[option.name] = value

    def given(self, name: str) -> str | None:
        """Return the text as it is, even if it is empty."""
        return self._given.get(name)

    def text(self, name: str) -> str | None:
        return self._given.get(name) or None

    def needed(self, name: str) -> str:
        if (text := self.text(name)) is None:
            raise errors.InvalidOption(f'{name} is missing: .option("{name}", …)')
        return text

    def number(self, name: str, *, least: int = 1) -> int | None:
        if (text := self.text(name)) is None:
            return None
        if not text.isdecimal() or int(text) < least:
            raise errors.InvalidOption(f"{name}: {text} is not a whole number of at least {least}")
        return int(text)

    def truth(self, name: str, *, default: bool) -> bool:
        text = (self.text(name) or str(default)).lower()
        if text not in ("true", "false"):
            raise errors.InvalidOption(f"{name}: {text} is neither true nor false")
        return text == "true"

    def instant(self, name: str) -> datetime | None:
        if (text := self.text(name)) is None:
            return None
        try:
            instant = datetime.fromisoformat(text)
        except ValueError as error:
            raise errors.InvalidOption(f"{name}: {text} is not an ISO 8601 timestamp") from error
        return instant if instant.tzinfo else instant.replace(tzinfo=UTC)


def _dsn(read: _Reader, environment: Mapping[str, str]) -> str:
    dsn = read.text("dsn") or environment.get("DATABASE_URL")
    if dsn is None:
        raise errors.InvalidOption('dsn is missing: .option("dsn", "postgresql://…")')
    return dsn


def _databases(read: _Reader) -> dict[str, str]:
    if (text := read.text("databases")) is None:
        return {}
    found = parse(text)
    for name in _OF_ONE:
        if len(found) > 1 and read.text(name) is not None:
            raise errors.InvalidOption(f"{name} works with one database: remove it, or databases")
    if read.text("dsn") is not None:
        raise errors.InvalidOption("use either dsn or databases")
    return found


def _has_trailing_batch(read: _Reader) -> bool:
    has = read.truth("trailingBatch", default=False)
    if has and read.text("txnAppId") is None:
        raise errors.InvalidOption("trailingBatch: set a txnAppId, to store the batches under")
    return has


def _has_lake(read: _Reader) -> bool:
    tier = read.text("tier") or "database"
    if tier not in ("database", "all"):
        raise errors.InvalidOption(f"tier: {tier} does not exist; write database or all")
    return tier == "all"


def _columns(read: _Reader) -> tuple[str, ...]:
    if (text := read.text("columns")) is None:
        return COLUMNS
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in COLUMNS:
            raise errors.InvalidOption(f"columns: {name} does not exist; the columns are {COLUMNS}")
    if len(set(names)) < len(names):
        raise errors.InvalidOption("columns: a column is listed twice")
    return names


def _names(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    if not text.strip():
        # A joined empty list of names must not read all partitions.
        raise errors.InvalidOption("partitions: the list is empty; omit it to read all partitions")
    if not text.startswith("["):
        return tuple(name.strip() for name in text.split(","))
    try:
        return tuple(msgspec.json.decode(text, type=list[str]))
    except msgspec.DecodeError as error:
        raise errors.InvalidOption(f"partitions: write a list of names: {error}") from error


def _offsets(name: str, text: str) -> Offsets | None:
    if text in (_EARLIEST, _LATEST):
        return None
    try:
        return msgspec.json.decode(text, type=_Offset | dict[str, _Offset])
    except msgspec.DecodeError as error:
        raise errors.InvalidOption(f"{name}: {text} is invalid: {error}") from error
