"""`queen audit`: prove that the audit log is whole."""

from typing import TYPE_CHECKING

import typer

from queen.cli.command_table import group
from queen.cli.support.environment import with_store
from queen.cli.support.output import say

if TYPE_CHECKING:
    from queen.store.audit import Checked
    from queen.store.store import Store

app = group("The log of what callers did.")


@app.callback()
def audit() -> None:
    """Keeps `verify` a word of its own while it is the only one."""


@app.command()
def verify() -> None:
    """
    Check the chain of hashes; fails where a record was changed or taken out.

    It begins behind the records that retention removed. Keep the number and the hash that it prints
    elsewhere: a log that was rewritten ends in another hash.

    Example: queen audit verify
    """

    async def read(store: "Store") -> "Checked":
        return await store.audit.check()

    checked = with_store(read)
    if checked.removed:
        say(f"retention removed records 1 to {checked.removed}")
    typer.echo(f"{checked.records} {checked.hash}")
