"""Findings about the backup of a server, and about a restored copy."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from queen.cli.doctor.findings import CRITICAL, OK, WARNING, Finding

_GIB: Final = 2**30
_REPAIR: Final = "queen backup-check --repair"


def archiving(row: Mapping[str, Any]) -> list[Finding]:
    """How far a restore of this server could go back, and forward."""
    found = [_archive(row)]
    if row["data_checksums"] == "on":
        found.append(Finding(OK, "checksums", "on"))
    else:
        advice = (
            "pg_checksums --enable while the server is down: damage is found before it is copied"
        )
        found.append(Finding(WARNING, "checksums", "off", advice))
    idle = row["idle_slot_bytes"] or 0
    if idle > _GIB:
        text = f"one that nobody reads keeps {idle / _GIB:.1f} GiB of log"
        found.append(Finding(WARNING, "replication slots", text, "drop it, or start its reader"))
    return found


def _archive(row: Mapping[str, Any]) -> Finding:
    if row["archive_mode"] == "off":
        if row["standbys"]:
            text = f"off; {row['standbys']} standbys follow, which follow mistakes too"
        else:
            text = "off, and no standby follows"
        advice = (
            "without it a restore loses all since the last base backup; a receiver of log does too"
        )
        return Finding(WARNING, "archiving", text, advice)
    if row["is_failing"]:
        text = f"failing, {row['failed_count']} times so far"
        return Finding(CRITICAL, "archiving", text, "see archive_command and the server's log")
    if row["archived_seconds"] is None:
        return Finding(WARNING, "archiving", "nothing was archived yet", "select pg_switch_wal()")
    text = f"{row['archived_count']} segments, the last {row['archived_seconds']:,.0f} s ago"
    if row["archive_timeout"] == "0":
        advice = "set archive_timeout: a quiet server archives nothing until a segment is full"
        return Finding(WARNING, "archiving", text, advice)
    return Finding(OK, "archiving", text)


def log(segments: Mapping[str, Any], positions: Mapping[str, Any]) -> list[Finding]:
    """Whether the messages are there, each where it says."""
    found: list[Finding] = []
    wrong = {
        "do not follow the one before": segments["gaps"],
        "are torn": segments["torn"],
        "are of partitions that are not there": positions["orphans"],
    }
    for what, count in wrong.items():
        if count:
            advice = "restore from another backup: messages are missing"
            found.append(Finding(CRITICAL, "log", f"{count:,} segments {what}", advice))
    if positions["ahead"]:
        text = f"{positions['ahead']:,} groups stand behind the end of a partition"
        advice = "tables are of different instants: restore from another backup"
        found.append(Finding(CRITICAL, "positions", text, advice))
    return found or [Finding(OK, "log", f"{segments['segments']:,} segments are whole")]


def numbers(row: Mapping[str, Any]) -> list[Finding]:
    """Whether this server goes on with numbers that are not in use."""
    found: list[Finding] = []
    if row["behind"]:
        text = f"those of {', '.join(row['behind'])} give out what is in use"
        advice = "the dump has no sequences: restore all of it, not tables alone"
        found.append(Finding(CRITICAL, "sequences", text, advice))
    if row["xids_ahead"] > 0:
        text = f"segments are {row['xids_ahead']:,} transactions ahead of this server"
        advice = f"{_REPAIR}: retention and pipelines would not see what is pushed"
        found.append(Finding(CRITICAL, "transaction numbers", text, advice))
    return found or [Finding(OK, "numbers", "this server is ahead of all that are in use")]


def leases(held: int) -> Finding:
    if not held:
        return Finding(OK, "leases", "none is held")
    text = f"{held:,} are held by consumers of another time"
    return Finding(WARNING, "leases", text, f"{_REPAIR}, or wait until they expire")


def alive(schedules: int, outbox: int) -> Finding:
    """What a server on this copy does by itself, while the original perhaps does it too."""
    if not schedules and not outbox:
        return Finding(OK, "at the start", "nothing is pushed by itself")
    text = f"a server pushes for {schedules} schedules and {outbox} messages of the outbox"
    advice = "if the original goes on elsewhere: update queen.schedules, truncate queen.outbox"
    return Finding(WARNING, "at the start", text, advice)


def master_keys(needed: Sequence[str], lost: Sequence[str]) -> Finding:
    if lost:
        text = f"{', '.join(lost)} not set here: what they seal cannot be read"
        return Finding(CRITICAL, "master keys", text, "keep keys apart from backups, but keep them")
    text = f"{', '.join(needed)} set here" if needed else "none is needed"
    return Finding(OK, "master keys", text)
