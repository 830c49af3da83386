"""Options of a client: explicit arguments and environment variables."""

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from difflib import get_close_matches
from typing import Annotated, Any, Final, Literal

import msgspec

from queen import errors
from queen.client.durations import LONG_SECONDS, millis_of, seconds_of
from queen.redacted import redacted

Strategy = Literal["affinity", "round-robin", "session"]
Millis = Annotated[int, msgspec.Meta(ge=0)]
Count = Annotated[int, msgspec.Meta(ge=1)]

DEFAULT_URL = "http://localhost:6632"
_OF_THE_SERVER: Final = {
    "QUEEN_CA_FILE": "ca_file",
    "QUEEN_CLIENT_CERTIFICATE": "client_certificate",
    "QUEEN_CLIENT_KEY": "client_key",
    "QUEEN_TOKEN": "bearer_token",
}


VARIABLES: Final = {
    "CLIENT_POOL_SIZE": "pool_size",
    "CLIENT_REQUEST_TIMEOUT": "timeout_millis",
    "CLIENT_RETRY_ATTEMPTS": "retry_attempts",
    "CLIENT_RETRY_BACKOFF": "retry_backoff",
    "CLIENT_RETRY_DELAY": "retry_delay_millis",
    "CLIENT_STREAM": "stream",
    "QUEEN_BASE_URL": "urls",
    **_OF_THE_SERVER,
    "WORKER_CONCURRENCY": "concurrency",
}
"""Environment variables and their options. An empty variable counts as unset."""


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Addresses of the servers, timeouts, retries and limits."""

    urls: tuple[str, ...] = (DEFAULT_URL,)
    """URLs of the servers."""
    timeout_millis: Count = 30_000
    """Timeout of one request. A long poll adds its own waiting time."""
    retry_attempts: Count = 3
    """Number of attempts of a call that is safe to repeat."""
    retry_delay_millis: Millis = 1_000
    """Upper bound of the first wait between two attempts. It grows by ``retry_backoff``."""
    retry_backoff: Annotated[float, msgspec.Meta(ge=1)] = 2.0
    """Factor by which the upper bound of the wait grows."""
    load_balancing_strategy: Strategy = "affinity"
    """How a call chooses its server."""
    enable_failover: bool = True
    """If a server fails, a call moves to another one immediately."""
    affinity_hash_ring: Count = 128
    """Points per server on the hash ring of the strategy ``affinity``."""
    health_retry_after_millis: Millis = 5_000
    """Time for which a failed server is skipped."""
    bearer_token: str | None = None
    """API key or token."""
    headers: dict[str, str] = {}
    """Additional HTTP headers."""
    ca_file: str | None = None
    """File with trusted certificate authorities; by default those of the system."""
    client_certificate: str | None = None
    """File with the client certificate."""
    client_key: str | None = None
    """File with its private key, unless ``client_certificate`` contains it."""
    stream: bool = True
    """Push, pop and acknowledge over one WebSocket per server if the server offers it, instead of
    one HTTP request each."""
    pool_size: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Largest number of connections; 0: no limit. Each long poll occupies one."""
    buffer_max_messages: Count = 100_000
    """Number of messages in all buffers together."""
    buffer_max_bytes: Count = 64 * 2**20
    """Size of all buffers together. A push that does not fit waits."""
    shutdown_timeout: float = 25.0
    """Seconds that handlers have to finish when a consumer is stopped."""
    close_timeout: float = 30.0
    """Seconds that `close` has to store buffered messages."""
    concurrency: Count = 1
    """Default concurrency of consumers."""

    def __repr__(self) -> str:
        return redacted(self, ("bearer_token", "headers"))

    @classmethod
    def of(cls, where: "str | Sequence[str] | Mapping[str, Any] | None", **others: Any) -> "Config":  # noqa: ANN401
        """
        Build a configuration from the arguments of `Queen`, and from the environment.

        QUEEN_TOKEN and the certificates belong to the server of QUEEN_BASE_URL: an explicit URL
        never gets them.
        """
        given: dict[str, Any] = dict(others)
        if isinstance(where, str):
            given["urls"] = [where]
        elif isinstance(where, Mapping):
            given = {**where, **others}
        elif where is not None:
            given["urls"] = list(where)
        if "url" in given:
            given["urls"] = [given.pop("url")]
        found = _from_env(os.environ)
        found.pop("concurrency", None)  # For job workers. `from_env` also uses it for consumers.
        if "urls" in given:
            for field in ("urls", *_OF_THE_SERVER.values()):
                found.pop(field, None)
        return cls._checked({**found, **given})

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> "Config":
        """Build a configuration from QUEEN_BASE_URL and the other client variables."""
        return cls._checked(_from_env(os.environ if environ is None else environ))

    @classmethod
    def _checked(cls, given: dict[str, Any]) -> "Config":
        unknown = [name for name in given if name not in cls.__struct_fields__]
        if unknown:
            near = get_close_matches(unknown[0], cls.__struct_fields__, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise errors.BadSettings(f"a client has no option {unknown[0]}{hint}")
        for name in given:
            given[name] = _number(name, given[name])
        try:
            config = msgspec.convert(given, cls, strict=False)
        except msgspec.ValidationError as error:
            raise errors.BadSettings(f"invalid client option: {error}") from error
        for url in config.urls:
            if not url.startswith(("http://", "https://")):
                raise errors.BadSettings(
                    f"{url!r}: the URL of a server must start with http:// or https://"
                )
        if not config.urls:
            raise errors.BadSettings("a client needs the URL of a server")
        return msgspec.structs.replace(config, urls=tuple(url.rstrip("/") for url in config.urls))


def _from_env(environ: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for variable, option in VARIABLES.items():
        if not (text := environ.get(variable)):
            continue
        if option == "urls":
            found[option] = [url.strip() for url in text.split(",")]
            continue
        try:
            found[option] = getattr(msgspec.convert({option: text}, Config, strict=False), option)
        except msgspec.ValidationError as error:
            problem = str(error).partition(" - at ")[0]
            raise errors.BadSettings(f"{variable}={text!r}: {problem}") from error
    return found


def _number(name: str, value: Any) -> Any:  # noqa: ANN401 - of any option
    """Convert a duration with a unit to the number that the option expects."""
    if name.endswith("_millis") and isinstance(value, str | timedelta):
        return value if isinstance(value, str) and value.isdecimal() else millis_of(value, name)
    if name in ("close_timeout", "shutdown_timeout"):
        return seconds_of(value, name, most=LONG_SECONDS)
    return value
