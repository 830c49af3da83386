"""`queen audit`: prove that the audit log is whole."""

from typing import TYPE_CHECKING

import typer

from queen.cli.commands import group
from queen.cli.environment import with_store

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
    Follow the chain of hashes from its beginning; fails where a record was changed or taken out.

    Keep what it prints: whoever rewrites the whole chain cannot make it end in that hash again.

    Example: queen audit verify
    """

    async def read(store: "Store") -> "Checked":
        return await store.audit.check()

    checked = with_store(read)
    typer.echo(f"{checked.records} {checked.hash}")
