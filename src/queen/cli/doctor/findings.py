"""Findings of `queen doctor`: each is OK, or describes a problem and its fix."""

import re
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from math import inf
from typing import Any, Final, NamedTuple

OK: Final = "ok"
WARNING: Final = "warning"
CRITICAL: Final = "critical"

_MIB: Final = 2**20
_LARGE_AUDIT_BYTES: Final = 10 * 10**9
_OLDEST_VERSION: Final = 150_000
_BLOATED: Final = 3
"""Maximum ratio of a table's size to the size that its rows need."""
_INDEX_ENTRY_BYTES: Final = 400
"""Maximum bytes per index entry, also if pages are half empty."""


class Finding(NamedTuple):
    """The result of one check."""

    status: str
    check: str
    found: str
    advice: str | None = None


def _graded(
    check: str, text: str, advice: str, amount: float, least: float, most: float = inf
) -> Finding:
    """Return a warning if the amount is at least ``least``, critical above ``most``, else OK."""
    if amount < least:
        return Finding(OK, check, text)
    return Finding(CRITICAL if amount > most else WARNING, check, text, advice)


class Setting(NamedTuple):
    """The limits of a PostgreSQL setting: on, or a number in bounds (bytes, milliseconds)."""

    status: str
    advice: str
    least: float = -inf
    most: float = inf

    def hurts(self, text: str, amount: float | None) -> bool:
        if (self.least, self.most) == (-inf, inf):
            return text != "on"
        return not self.least <= (float(text) if amount is None else amount) <= self.most


SETTINGS: Final[Mapping[str, Setting]] = {
    "fsync": Setting(CRITICAL, "turn it on: a crash loses messages"),
    "full_page_writes": Setting(CRITICAL, "turn it on: a crash destroys pages"),
    "autovacuum": Setting(CRITICAL, "turn it on: tables grow without end"),
    "track_counts": Setting(CRITICAL, "turn it on: autovacuum needs it"),
    "autovacuum_naptime": Setting(
        WARNING, "at most 1min, better 10s: queue tables change all the time", most=60_000
    ),
    "autovacuum_max_workers": Setting(
        WARNING, "at least 3, so that one table does not block the others", least=3
    ),
    "autovacuum_vacuum_cost_delay": Setting(
        WARNING, "at most 2ms: vacuum does not keep up", most=10
    ),
    "shared_buffers": Setting(
        WARNING, "at least 128MB, better a quarter of memory", least=128 * _MIB
    ),
    "max_wal_size": Setting(WARNING, "at least 1GB: checkpoints come too often", least=1024 * _MIB),
    "checkpoint_timeout": Setting(
        WARNING, "at least 5min: after a checkpoint, PostgreSQL writes full pages", least=300_000
    ),
    "checkpoint_completion_target": Setting(WARNING, "0.9: checkpoints come in bursts", least=0.5),
}
"""Without the settings that Queen sets for its own connections."""


def version(number: int, text: str) -> Finding:
    if number < _OLDEST_VERSION:
        return Finding(CRITICAL, "version", f"PostgreSQL {text}", "upgrade to 15 or newer")
    return Finding(OK, "version", f"PostgreSQL {text}")


def settings(values: Mapping[str, tuple[str, float | None]]) -> list[Finding]:
    """Check values by name, with the number of bytes or milliseconds if they have a unit."""
    found: list[Finding] = []
    for name, (text, amount) in values.items():
        setting = SETTINGS[name]
        shown = text if amount is None else _amount(name, amount)
        if setting.hurts(text, amount):
            found.append(Finding(setting.status, name, shown, setting.advice))
        else:
            found.append(Finding(OK, name, shown))
    return found


def connections(used: int, most: int) -> Finding:
    advice = "raise max_connections, lower DB_POOL_SIZE or use PgBouncer"
    return _graded("connections", f"{used} of {most}", advice, used, most * 0.9)


def frozen(age: int) -> Finding:
    """Check the age of the oldest row, because PostgreSQL stops at two billion."""
    text = f"{age:,} transactions since the oldest row was frozen"
    advice = "run VACUUM FREEZE, and check why autovacuum does not"
    return _graded("wraparound", text, advice, age, 600_000_000, 1_500_000_000)


def tables(rows: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """Check for many dead rows that wait for vacuum."""
    dead = [
        row
        for row in rows
        if row["dead_rows"] > 100_000 and row["dead_rows"] > row["live_rows"] * 0.5
    ]
    size = sum(row["total_bytes"] for row in rows)
    if not dead:
        return [Finding(OK, "dead rows", f"few; {len(rows)} tables of {_size(size)}")]
    return [
        Finding(
            CRITICAL if row["dead_rows"] > 10_000_000 else WARNING,
            "dead rows",
            f"{row['dead_rows']:,} beside {row['live_rows']:,} in {row['name']}",
            "end old transactions first, then check autovacuum's settings",
        )
        for row in dead
    ]


def encryption(hosts: Sequence[str], mode: str) -> Finding:
    """Check that other machines can't read or redirect the connection to PostgreSQL."""
    remote = [host for host in hosts if not _is_local(host)]
    if not remote:
        return Finding(OK, "TLS to PostgreSQL", "not needed: a socket or loopback")
    text = f"sslmode={mode} to {', '.join(remote)}"
    if mode == "verify-full":
        return Finding(OK, "TLS to PostgreSQL", text)
    return Finding(
        WARNING,
        "TLS to PostgreSQL",
        f"{text}: the server's certificate is not verified",
        "set PG_SSLMODE=verify-full and PG_SSLROOTCERT",
    )


def database_user(name: str, *, is_superuser: bool) -> Finding:
    """Check for superuser rights, which an attacker on the server would have too."""
    if not is_superuser:
        return Finding(OK, "database user", f"{name}, no superuser")
    return Finding(
        WARNING,
        "database user",
        f"{name} is a superuser",
        "run `queen migrate roles`, and connect as a member of queen_app: docs/security/secure.md",
    )


def _is_local(host: str) -> bool:
    if host.startswith(("/", "@")) or host in ("", "localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def audit_log(rows: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """Check the size of the audit log, if there is one."""
    for row in rows:
        if row["name"] == "audit":
            size = row["total_bytes"]
            text = f"{row['live_rows']:,} records of {_size(size)}"
            advice = "find its source in /api/v1/audit, or lower QUEEN_AUDIT_RETENTION_HOURS"
            return [_graded("audit log", text, advice, size, _LARGE_AUDIT_BYTES + 1)]
    return []


def bloat(rows: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """Find tables that are much larger than their rows need, by an estimate."""
    found: list[Finding] = []
    for row in rows:
        size, needed = row["heap_bytes"], row["needed_bytes"]
        if size < 100 * _MIB or needed is None or needed * _BLOATED > size:
            continue
        text = f"{row['name']} takes {_size(size)}, its rows need about {_size(needed)}"
        advice = "end old snapshots, then run VACUUM FULL during low traffic, or pg_repack"
        found.append(Finding(WARNING, "bloat", text, advice))
    return found or [Finding(OK, "bloat", "no table is much larger than its rows need")]


def indexes(rows: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """Find indexes that are invalid, or much larger than their entries need."""
    found = [
        Finding(
            CRITICAL, "indexes", f"{row['name']} is not valid", f"REINDEX INDEX queen.{row['name']}"
        )
        for row in rows
        if not row["is_valid"]
    ]
    for row in rows:
        if row["is_valid"] and row["bytes"] > max(100 * _MIB, row["rows"] * _INDEX_ENTRY_BYTES):
            text = f"{row['name']} takes {_size(row['bytes'])} for {row['rows']:,} entries"
            advice = f"REINDEX INDEX CONCURRENTLY queen.{row['name']}"
            found.append(Finding(WARNING, "indexes", text, advice))
    return found or [Finding(OK, "indexes", "valid, and not larger than needed")]


def table_options(options: Mapping[str, Sequence[str]]) -> list[Finding]:
    """Find tables with autovacuum turned off, or without the options of their migration."""
    found: list[Finding] = []
    for name, has in options.items():
        options = dict(each.split("=", 1) for each in has)
        if options.get("autovacuum_enabled", "true") not in ("true", "on", "1", "yes"):
            advice = f"alter table queen.{name} reset (autovacuum_enabled)"
            found.append(Finding(CRITICAL, "autovacuum of tables", f"off for {name}", advice))
        lost = {key: value for key, value in made_with(name).items() if key not in options}
        if lost:
            text = f"{name} lacks {', '.join(lost)}"
            setting = ", ".join(f"{key} = {value}" for key, value in lost.items())
            advice = f"alter table queen.{name} set ({setting})"
            found.append(Finding(WARNING, "autovacuum of tables", text, advice))
    return found or [Finding(OK, "autovacuum of tables", "unchanged")]


def made_with(table: str) -> dict[str, str]:
    """Return the autovacuum options that migrations set for a table."""
    from queen import sql

    made: dict[str, str] = {}
    for text in sql.MIGRATIONS.values():
        for body in re.findall(
            rf"^create table queen\.{table} \((?:(?!^\)).)*^\) with \((.*?)\);",
            text,
            flags=re.M | re.S,
        ):
            made |= dict(re.findall(r"(autovacuum_\w+|toast\.autovacuum_\w+) = ([\w.]+)", body))
    return {key: value for key, value in made.items() if not key.startswith("toast.")}


def transaction(row: Mapping[str, Any] | None) -> Finding:
    if row is None:
        return Finding(OK, "oldest transaction", "no transaction is open")
    age: float = row["age_seconds"]
    who = row.get("application_name") or row.get("application") or "?"
    text = f"{age:,.1f} s, process {row['pid']}, {who} ({row['state']})"
    advice = f"vacuum waits for it: select pg_terminate_backend({row['pid']})"
    return _graded("oldest transaction", text, advice, age, 600, 3600)


def horizon(row: Mapping[str, Any] | None, held_back_by: str | None) -> Finding:
    """Check for an open transaction, in any database, that pipelines and retention wait for."""
    check = "transaction horizon"
    if row is None or held_back_by is None:
        return Finding(OK, check, "no transaction holds it back")
    pid = row["pid"]
    advice = "pipelines, retention and the outbox wait for it: "
    if pid is not None:
        advice += f"select pg_terminate_backend({pid})"
    else:
        advice += "commit it or roll it back"
    age: float | None = row["age_seconds"]
    text = f"held back by {held_back_by}"
    if age is None:
        return Finding(OK, check, text)
    return _graded(check, text, advice, age, 600, 3600)


def snapshots(rows: Sequence[Mapping[str, Any]]) -> Finding:
    """Check the age of the oldest snapshot: vacuum keeps every row that it may read."""
    if not rows:
        return Finding(OK, "oldest snapshot", "no snapshot is held")
    oldest = rows[0]
    age: int = oldest["xmin_age"] or 0
    text = f"{age:,} transactions old, {oldest['kind']} {oldest['name']}"
    advice = "end it: vacuum keeps every row that it may read"
    return _graded("oldest snapshot", text, advice, age, 1_000_000, 50_000_000)


def clock(of: str, skew_seconds: float, precision_seconds: float = 0.1) -> Finding:
    """Check how far another clock is ahead of this machine's."""
    text = f"{skew_seconds:+.1f} s against this machine"
    late = abs(skew_seconds) - precision_seconds
    advice = "synchronize clocks by NTP: timestamps and token expiry are wrong by this difference"
    return _graded(f"clock of the {of}", text, advice, late, 1, 60)


def migrations(pending: Sequence[str]) -> Finding:
    if not pending:
        return Finding(OK, "migrations", "the database is at this release")
    return Finding(CRITICAL, "migrations", f"lacks {', '.join(pending)}", "run `queen migrate up`")


def releases(ours: str, theirs: Sequence[str]) -> Finding:
    """Warn about servers of different releases, which are only supported during an upgrade."""
    text = ", ".join(sorted(set(theirs))) or "unknown"
    if set(theirs) <= {ours}:
        return Finding(OK, "release", text)
    return Finding(
        WARNING, "release", f"servers {text}, this command {ours}", "upgrade all to one release"
    )


def instances(alive: int, waiters: int) -> Finding:
    if alive:
        return Finding(OK, "processes", f"{alive} alive, {waiters} waiting pops")
    return Finding(WARNING, "processes", "no process is running", "check the log of the server")


def maintenance(modes: Sequence[str]) -> Finding:
    if not modes:
        return Finding(OK, "maintenance", "off")
    return Finding(WARNING, "maintenance", f"on for {' and '.join(modes)}", "turn it off when done")


def _amount(name: str, amount: float) -> str:
    if name in ("shared_buffers", "max_wal_size"):
        return _size(amount)
    return f"{amount / 1000:g} s"


def _size(size: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
