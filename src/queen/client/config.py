"""What a client is told at its start, under the names that people know."""

import os
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, Literal

import msgspec

from queen import errors

Strategy = Literal["affinity", "round-robin", "session"]
Millis = Annotated[int, msgspec.Meta(ge=0)]
Count = Annotated[int, msgspec.Meta(ge=1)]

DEFAULT_URL = "http://localhost:6632"


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the servers are, and how patient a client is."""

    urls: tuple[str, ...] = (DEFAULT_URL,)
    timeout_millis: Count = 30_000
    """For one exchange; a pop that waits has its own time on top."""
    retry_attempts: Count = 3
    retry_delay_millis: Millis = 1_000
    """The first wait between two attempts is at most this; the next ones may be longer."""
    retry_backoff: Annotated[float, msgspec.Meta(ge=1)] = 2.0
    """How much longer each next wait may be."""
    load_balancing_strategy: Strategy = "affinity"
    enable_failover: bool = True
    affinity_hash_ring: Count = 128
    health_retry_after_millis: Millis = 5_000
    """How long a server that failed is left alone."""
    bearer_token: str | None = None
    headers: dict[str, str] = {}
    pool_size: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Connections at most; 0 is as many as there are calls: a long poll holds one all the time."""
    buffer_max_messages: Count = 100_000
    buffer_max_bytes: Count = 64 * 2**20
    """What buffers may hold together; a push that finds no room waits."""
    shutdown_timeout: float = 25.0
    """Seconds that handlers have to end when a consumer is stopped."""
    close_timeout: float = 30.0
    """Seconds that `close` has to store what is buffered."""
    concurrency: Count = 1
    """Of consumers that do not say their own."""

    @classmethod
    def of(cls, where: "str | Sequence[str] | Mapping[str, Any] | None", **others: Any) -> "Config":  # noqa: ANN401
        """A configuration from whatever `Queen` was given."""
        given: dict[str, Any] = dict(others)
        if isinstance(where, str):
            given["urls"] = [where]
        elif isinstance(where, Mapping):
            given = {**where, **others}
        elif where is not None:
            given["urls"] = list(where)
        if "url" in given:
            given["urls"] = [given.pop("url")]
        return cls._checked(given)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> "Config":
        """A configuration from QUEEN_BASE_URL and the other variables of a client."""
        environ = os.environ if environ is None else environ
        names = {
            "CLIENT_POOL_SIZE": "pool_size",
            "CLIENT_REQUEST_TIMEOUT": "timeout_millis",
            "CLIENT_RETRY_ATTEMPTS": "retry_attempts",
            "CLIENT_RETRY_BACKOFF": "retry_backoff",
            "CLIENT_RETRY_DELAY": "retry_delay_millis",
            "QUEEN_TOKEN": "bearer_token",
            "WORKER_CONCURRENCY": "concurrency",
        }
        given: dict[str, Any] = {
            field: environ[name] for name, field in names.items() if name in environ
        }
        if "QUEEN_BASE_URL" in environ:
            given["urls"] = [url.strip() for url in environ["QUEEN_BASE_URL"].split(",")]
        return cls._checked(given)

    @classmethod
    def _checked(cls, given: dict[str, Any]) -> "Config":
        unknown = [name for name in given if name not in cls.__struct_fields__]
        if unknown:
            near = get_close_matches(unknown[0], cls.__struct_fields__, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise errors.BadSettings(f"a client has no option {unknown[0]}{hint}")
        try:
            config = msgspec.convert(given, cls, strict=False)
        except msgspec.ValidationError as error:
            raise errors.BadSettings(f"the client's options: {error}") from error
        for url in config.urls:
            if not url.startswith(("http://", "https://")):
                raise errors.BadSettings(f"{url!r}: a server is named http://… or https://…")
        if not config.urls:
            raise errors.BadSettings("a client needs the URL of a server")
        return msgspec.structs.replace(config, urls=tuple(url.rstrip("/") for url in config.urls))
