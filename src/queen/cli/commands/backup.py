"""`queen backup-check`: check that a database can be restored, or that a restored one is intact."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from queen import errors
from queen.cli.commands.doctor import conclude, named_by
from queen.cli.doctor import backup_findings, findings
from queen.cli.doctor.findings import CRITICAL, OK, Finding
from queen.cli.support.client import Output, Yes, confirm
from queen.cli.support.databases import Dsn, DsnFile, databases
from queen.cli.support.output import Format, say

if TYPE_CHECKING:
    from queen.store.checks.restored import Restored
    from queen.store.store import Store

_SECONDS: Final = 6 * 3600.0
"""Time limit for the complete check."""


def backup_check(
    dsn: Dsn = None,
    dsn_file: DsnFile = None,
    restored: Annotated[
        bool, typer.Option("--restored", help="Check the content of a restored copy.")
    ] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="Prepare a restored copy for servers, then check it.")
    ] = False,
    yes: Yes = False,
    output: Output = Format.TABLE,
) -> None:
    """
    Check that a database can be restored, or that a restored copy is intact.

    Exit codes: 0 ok, 1 warning, 2 critical. Stop all servers on a restored copy first. With
    QUEEN_DATABASES it checks each database.

    Example: queen backup-check --dsn-file copy.dsn --restored
    """
    where = databases(dsn, dsn_file)
    if not where:
        raise errors.BadRequest("no database: give --dsn-file or --dsn, or set DATABASE_URL")
    if repair:
        confirm("void all leases of this database and renumber its transactions", yes=yes)
    found: list[Finding] = []
    for name, each in where.items():
        checked = asyncio.run(_check(each, is_restored=restored or repair, is_repaired=repair))
        found += named_by(name, checked, where)
    conclude(found, output)


async def _check(dsn: str, *, is_restored: bool, is_repaired: bool) -> list[Finding]:
    from queen.store.checks.restored import Restored
    from queen.store.connection.options import Connecting
    from queen.store.migrations import pending
    from queen.store.store import Store

    missing = await pending(dsn)
    connecting = Connecting(connections=1, statement_seconds=_SECONDS)
    store = await Store.open(dsn, connecting=connecting)
    try:
        looking = Restored(store.database)
        if not is_restored:
            return [*backup_findings.archiving(dict(await looking.archiving())), await _keys(store)]
        if missing:
            return [findings.migrations(missing)]
        if is_repaired:
            voided, is_renumbered = await looking.void_deliveries(), await looking.renumber()
            say(f"{voided} leases are void" + (". Transactions are renumbered." * is_renumbered))
        return [findings.migrations(missing), *await _content(store, looking)]
    finally:
        await store.close()


async def _content(store: "Store", looking: "Restored") -> list[Finding]:
    alive: dict[str, Any] = dict(await looking.alive())
    return [
        *backup_findings.log(dict(await looking.segments()), dict(await looking.positions())),
        *backup_findings.numbers(dict(await looking.numbers())),
        backup_findings.leases(alive["held"]),
        backup_findings.alive(alive["schedules"], alive["outbox"]),
        await _keys(store),
        await _audit(store),
    ]


async def _keys(store: "Store") -> Finding:
    """Whether the master keys to decrypt the stored data are set here."""
    from queen.cli.support.environment import settings
    from queen.engine.encryption import rotation

    status = await rotation.status(store, rotation.keyring_of(settings()))
    return backup_findings.master_keys(
        [each.id for each in status if each.data_keys],
        [each.id for each in status if each.data_keys and not each.is_here],
    )


async def _audit(store: "Store") -> Finding:
    try:
        checked = await store.audit.check()
    except errors.QueenError as error:
        return Finding(CRITICAL, "audit log", str(error), "compare it with an older backup")
    return Finding(OK, "audit log", f"{checked.records} records, {checked.hash}")
