"""Settings of the server: read from the environment once, then frozen and passed down."""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Self
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import msgspec

from queen import errors, original_settings
from queen.setting_fields import SettingFields

OF_OTHERS = frozenset(
    {
        "QUEEN_BASE_URL",
        "QUEEN_CA_FILE",
        "QUEEN_CLIENT_CERTIFICATE",
        "QUEEN_CLIENT_KEY",
        "QUEEN_CLIENT_LOG",
        "QUEEN_CONTEXT",
        "QUEEN_QUIET",
        "QUEEN_RELAY_DSN",
        "QUEEN_SERVER",
        "QUEEN_TIMEOUT",
        "QUEEN_TOKEN",
    }
)
"""Variables that begin with QUEEN_ and belong to the SDK or the CLI."""

SECRETS = frozenset(
    {
        "DATABASE_URL",
        "JWT_SECRET",
        "PG_PASSWORD",
        "QUEEN_DATABASES",
        "QUEEN_ENCRYPTION_KEY",
        "QUEEN_ENCRYPTION_KEYS",
    }
)
"""Never shown, logged or returned."""

_DATABASE = re.compile(r"[a-z][a-z0-9-]{0,31}", re.ASCII)


class Settings(SettingFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings: read from the environment once, then frozen and passed down."""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Self:
        """Read the settings; raises BadSettings for an unknown or malformed variable."""
        known = {*cls.__struct_encode_fields__}
        environ = original_settings.translated(environ)
        ours = {
            name: _plain(value)
            for name, value in environ.items()
            if name in known or (name.startswith("QUEEN_") and name not in OF_OTHERS)
        }
        try:
            return msgspec.convert(ours, cls, strict=False)
        except msgspec.ValidationError as error:
            raise errors.BadSettings(_explain(str(error), known)) from error

    @property
    def dsn(self) -> str:
        """The connection URL of the database, or of the first one, with the password."""
        return next(iter(self.dsns.values()))

    @property
    def dsns(self) -> dict[str, str]:
        """The connection URL of each database by its name, the first database first."""
        if self.databases is None:
            return {"main": self._dsn}
        if self.database_url is not None:
            raise errors.BadSettings("use either QUEEN_DATABASES or DATABASE_URL")
        found: dict[str, str] = {}
        for each in self.databases.split():
            name, equals, url = each.partition("=")
            if not equals or not _DATABASE.fullmatch(name) or "://" not in url:
                raise errors.BadSettings(
                    "QUEEN_DATABASES needs NAME=URL for each database, separated by spaces. A name"
                    " has lower-case letters, digits and hyphens, and begins with a letter"
                )
            if name in found:
                raise errors.BadSettings(f"QUEEN_DATABASES has database {name} twice")
            found[name] = self.with_tls(url)
        if not found:
            raise errors.BadSettings("QUEEN_DATABASES names no database")
        return found

    @property
    def preferred(self) -> list[str] | None:
        """The databases that this server prefers. None: all are equal."""
        names = words(self.preferred_databases)
        if not names:
            return None
        if unknown := [each for each in names if each not in self.dsns]:
            raise errors.BadSettings(
                f"QUEEN_PREFERRED_DATABASES names {unknown[0]}, which QUEEN_DATABASES lacks"
            )
        if self.advertised_url is None:
            raise errors.BadSettings(
                "QUEEN_PREFERRED_DATABASES needs QUEEN_ADVERTISED_URL: without it, clients can't"
                " choose this server"
            )
        return names

    @property
    def _dsn(self) -> str:
        if self.database_url is not None:
            return self.with_tls(self.database_url)
        secret = f":{quote(self.pg_password, safe='')}" if self.pg_password is not None else ""
        user = quote(self.pg_user, safe="") + secret
        hosts = ",".join(
            f"{quote(host, safe='')}:{self.pg_port}"
            for host in words(self.pg_host) or ["localhost"]
        )
        return self.with_tls(f"postgresql://{user}@{hosts}/{quote(self.pg_db, safe='')}")

    def with_tls(self, dsn: str) -> str:
        """Add the TLS settings that a DSN does not have itself."""
        given = dict(parse_qsl(urlsplit(dsn).query, keep_blank_values=True))
        ours = {
            "sslmode": self.pg_sslmode,
            "sslrootcert": self.pg_sslrootcert,
            "sslcert": self.pg_sslcert,
            "sslkey": self.pg_sslkey,
        }
        missing = {k: v for k, v in ours.items() if v is not None and k not in given}
        if not missing:
            return dsn
        if "://" not in dsn:
            raise errors.BadSettings(
                "PG_SSLMODE and the other PG_SSL variables need a database URL: postgresql://…"
            )
        return f"{dsn}{'&' if '?' in dsn else '?'}{urlencode(missing, quote_via=quote)}"

    @property
    def auth_kinds(self) -> frozenset[str]:
        """The accepted kinds of credentials: keys, jwt."""
        return frozenset(words(self.auth))

    @property
    def jwt_algorithm_names(self) -> list[str]:
        return words(self.jwt_algorithms)

    @property
    def queue_defaults(self) -> dict[str, Any]:
        """Option columns of a new queue that differ from the database's defaults."""
        return {
            "lease_seconds": self.default_lease_time,
            "retry_limit": self.default_retry_limit,
            "retry_delay_ms": self.default_retry_delay_ms,
            "max_size": self.default_max_size,
            "ttl_seconds": self.default_ttl,
            "priority": self.default_priority,
            "delay_seconds": self.default_delayed_processing,
            "window_seconds": self.default_window_buffer,
            "dead_letter": self.default_dlq,
            "retention_enabled": self.default_retention_enabled,
            "retention_seconds": self.default_retention_seconds,
            "completed_retention_seconds": self.default_completed_retention_seconds,
            "max_wait_seconds": self.default_max_wait_seconds,
        }

    def shown(self, environ: Mapping[str, str]) -> list[tuple[str, str, str]]:
        """Return each variable, its value with secrets masked, and its source."""
        values = msgspec.to_builtins(self)
        environ = original_settings.translated(environ)
        return [
            (
                name,
                "****" if name in SECRETS and value is not None else str(value),
                "environment" if name in environ else "default",
            )
            for name, value in values.items()
        ]

    def __repr__(self) -> str:
        return f"Settings(port={self.port}, …)"  # The others hold secrets.


def words(text: str | None) -> list[str]:
    """Split a list at its commas."""
    return [word.strip() for word in (text or "").split(",") if word.strip()]


def _plain(value: str) -> str:
    """Replace the words for booleans that msgspec does not accept."""
    words = {"yes": "true", "on": "true", "no": "false", "off": "false"}
    return words.get(value.lower(), value)


def _explain(problem: str, known: set[str]) -> str:
    """Rewrite an error of msgspec: name the variable and the allowed values."""
    if "unknown field" in problem:
        name = problem.partition("`")[2].partition("`")[0]
        near = get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        return f"setting {name} does not exist{hint}"
    what, _, where = problem.partition(" - at `$.")
    return f"{where.rstrip('`') or 'a setting'}: {what}"
