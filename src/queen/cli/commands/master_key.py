"""`queen key`: the master keys of encrypted queues."""

from typing import TYPE_CHECKING

import typer

from queen.cli.command_table import group
from queen.cli.support.client import Output
from queen.cli.support.environment import settings, with_store
from queen.cli.support.output import Format, say, show

if TYPE_CHECKING:
    from queen.engine.encryption.rotation import MasterKey
    from queen.store.store import Store

app = group("Manage the master keys of encrypted queues.")

_COLUMNS = ["id", "here", "wraps", "dataKeys", "queues", "needed"]


@app.command()
def status(output: Output = Format.TABLE) -> None:
    """
    List the master keys and which of them are still needed by data keys.

    Fails if a needed key is not set here, because its queues can't be decrypted.

    Example: queen key status -o json
    """
    from queen.engine.encryption import rotation

    keyring = rotation.keyring_of(settings())

    async def read(store: "Store") -> "list[MasterKey]":
        return await rotation.status(store, keyring)

    found = with_store(read)
    show(
        [
            {
                "id": each.id,
                "here": each.is_here,
                "wraps": each.is_first,
                "dataKeys": each.data_keys,
                "queues": each.queues,
                "needed": each.is_first or each.data_keys > 0,
            }
            for each in found
        ],
        _COLUMNS,
        output,
    )
    if lost := [each.id for each in found if each.data_keys and not each.is_here]:
        say(f"Needed, but not set here: {', '.join(lost)}")
        raise typer.Exit(1)


@app.command()
def rotate() -> None:
    """
    Wrap all data keys with the first master key, in small steps. Servers keep running.

    Set that key on every server first. Messages are not rewritten.

    Example: queen key rotate
    """
    from queen.cli.commands.token import note
    from queen.engine.encryption import rotation

    keyring = rotation.keyring_of(settings())

    async def run(store: "Store") -> int:
        total, after = 0, 0
        while True:
            place, count = await rotation.rewrap(store, keyring, after)
            total += count
            if place is None:
                break
            after = place
        await note(store, "queen key rotate", after={"masterKey": keyring.first, "dataKeys": total})
        return total

    typer.echo(f"{with_store(run)} data keys are wrapped with {keyring.first} now.")
