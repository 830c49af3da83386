"""`queen audit`: verify the audit log."""

from typing import TYPE_CHECKING

import typer

from queen.cli.command_table import group
from queen.cli.support.environment import with_store
from queen.cli.support.output import say

if TYPE_CHECKING:
    from queen.store.audit import Checked
    from queen.store.store import Store

app = group("Verify the audit log.")


@app.command()
def verify() -> None:
    """
    Check the hash chain. Fails if a record was changed or removed.

    The check starts after the records that retention removed. Store the printed number and hash
    elsewhere: if someone rewrites the log, its last hash changes.

    Example: queen audit verify
    """

    async def read(store: "Store") -> "Checked":
        return await store.audit.check()

    checked = with_store(read)
    if checked.removed:
        say(f"retention removed records 1 to {checked.removed}")
    typer.echo(f"{checked.records} {checked.hash}")
