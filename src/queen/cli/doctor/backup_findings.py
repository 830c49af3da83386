"""Findings about the backups of a server, and about a restored copy."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from queen.cli.doctor.findings import CRITICAL, OK, WARNING, Finding

_GIB: Final = 2**30
_REPAIR: Final = "queen backup-check --repair"


def archiving(row: Mapping[str, Any]) -> list[Finding]:
    """Check how far back, and up to which time, this server could be restored."""
    found = [_archive(row)]
    if row["data_checksums"] == "on":
        found.append(Finding(OK, "checksums", "on"))
    else:
        advice = "run pg_checksums --enable while PostgreSQL is stopped, to detect damaged pages"
        found.append(Finding(WARNING, "checksums", "off", advice))
    idle = row["idle_slot_bytes"] or 0
    if idle > _GIB:
        text = f"an inactive slot keeps {idle / _GIB:.1f} GiB of WAL"
        found.append(Finding(WARNING, "replication slots", text, "drop it, or start its consumer"))
    return found


def _archive(row: Mapping[str, Any]) -> Finding:
    if row["archive_mode"] == "off":
        if row["standbys"]:
            text = f"off; {row['standbys']} standbys, which replicate mistakes too"
        else:
            text = "off, and no standby"
        advice = "turn it on, or run pg_receivewal: a restore would end at the last base backup"
        return Finding(WARNING, "archiving", text, advice)
    if row["is_failing"]:
        text = f"failing, {row['failed_count']} times so far"
        return Finding(CRITICAL, "archiving", text, "see archive_command and the server's log")
    if row["archived_seconds"] is None:
        return Finding(WARNING, "archiving", "no segment archived yet", "select pg_switch_wal()")
    text = f"{row['archived_count']} segments, the last {row['archived_seconds']:,.0f} s ago"
    if row["archive_timeout"] == "0":
        advice = "set archive_timeout: an idle server archives a segment only when it is full"
        return Finding(WARNING, "archiving", text, advice)
    return Finding(OK, "archiving", text)


def log(segments: Mapping[str, Any], positions: Mapping[str, Any]) -> list[Finding]:
    """Check that all messages are there, each at its offset."""
    found: list[Finding] = []
    wrong = {
        "don't follow the previous one": segments["gaps"],
        "are torn": segments["torn"],
        "belong to missing partitions": positions["orphans"],
    }
    for what, count in wrong.items():
        if count:
            advice = "restore from another backup: messages are missing"
            found.append(Finding(CRITICAL, "log", f"{count:,} segments {what}", advice))
    if positions["ahead"]:
        text = f"{positions['ahead']:,} groups are positioned after the end of a partition"
        advice = "tables are from different times: restore from another backup"
        found.append(Finding(CRITICAL, "positions", text, advice))
    return found or [Finding(OK, "log", f"{segments['segments']:,} segments are intact")]


def numbers(row: Mapping[str, Any]) -> list[Finding]:
    """Check that this server continues with unused sequence and transaction numbers."""
    found: list[Finding] = []
    if row["behind"]:
        text = f"those of {', '.join(row['behind'])} return numbers that are in use"
        advice = "the dump has no sequences: restore all of it, not only tables"
        found.append(Finding(CRITICAL, "sequences", text, advice))
    if row["xids_ahead"] > 0:
        text = f"segments are {row['xids_ahead']:,} transactions ahead of this server"
        advice = f"{_REPAIR}: retention and pipelines would miss new messages"
        found.append(Finding(CRITICAL, "transaction numbers", text, advice))
    return found or [Finding(OK, "numbers", "this server is ahead of all numbers in use")]


def leases(held: int) -> Finding:
    if not held:
        return Finding(OK, "leases", "no lease is active")
    text = f"{held:,} from before the backup are active"
    return Finding(WARNING, "leases", text, f"{_REPAIR}, or wait until they expire")


def alive(schedules: int, outbox: int) -> Finding:
    """Warn about pushes that a server on this copy starts, because the original may repeat them."""
    if not schedules and not outbox:
        return Finding(OK, "at the start", "a server starts no pushes")
    text = f"a server pushes for {schedules} schedules and {outbox} messages of the outbox"
    advice = (
        "if the original still runs: update queen.schedules, truncate queen.outbox, queen.forwards"
    )
    return Finding(WARNING, "at the start", text, advice)


def master_keys(needed: Sequence[str], lost: Sequence[str]) -> Finding:
    if lost:
        text = f"{', '.join(lost)} not set here: the data can't be decrypted"
        return Finding(CRITICAL, "master keys", text, "set them: they are not part of a backup")
    text = f"{', '.join(needed)} set here" if needed else "not needed"
    return Finding(OK, "master keys", text)
