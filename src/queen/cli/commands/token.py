"""`queen token`: manage API keys directly in the database."""

import getpass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from queen import errors
from queen.cli.command_table import group
from queen.cli.support.client import DryRun, Output, Yes, confirm
from queen.cli.support.environment import with_store
from queen.cli.support.output import Format, plain_of, say, show

if TYPE_CHECKING:
    from queen.store.store import Store
    from queen.wire.access import TokenRequest

app = group("Manage API keys, directly in the database.")

_ACTOR = "command line"


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Name of the key, such as its purpose.")],
    role: Annotated[
        str | None, typer.Option(help="admin, read-write, read-only or write-only.")
    ] = None,
    permission: Annotated[
        list[str] | None, typer.Option(help="A permission instead of a role. Repeatable.")
    ] = None,
    queue: Annotated[
        list[str] | None, typer.Option(help="Only queues of this name. * matches any text.")
    ] = None,
    namespace: Annotated[
        list[str] | None, typer.Option(help="Only queues of this namespace. * matches any text.")
    ] = None,
    expires_at: Annotated[
        datetime | None, typer.Option(help="Expiry date in UTC.", formats=["%Y-%m-%d"])
    ] = None,
    requests_per_second: Annotated[float | None, typer.Option(help="Request limit.")] = None,
) -> None:
    """
    Create an API key and print it once.

    Example: queen token create ops --role admin
    """
    scopes = [{"queue": each} for each in queue or []]
    scopes += [{"namespace": each} for each in namespace or []]
    options: dict[str, Any] = {
        "name": name,
        "role": role,
        "permissions": permission or None,
        "scopes": scopes or None,
        "expiresAt": f"{expires_at:%Y-%m-%d}T00:00:00Z" if expires_at else None,
        "requestsPerSecond": requests_per_second,
    }
    request = _request(options)

    async def store_key(store: "Store") -> str:
        from queen.server.auth.api_keys import new_key

        key = new_key()
        await store.keys.make(
            key.id,
            key.digest,
            name=request.name,
            role=request.role,
            permissions=request.permissions,
            scopes=options["scopes"],
            requests_per_second=request.requests_per_second,
            created_by=_who(),
            expires_at=request.expires_at,
        )
        await note(store, "queen token create", after={"id": key.id, **options})
        return key.text

    typer.echo(with_store(store_key))
    typer.echo("Store it now: it is not shown again.", err=True)


def _request(options: dict[str, Any]) -> "TokenRequest":
    import msgspec

    from queen.wire.access import TokenRequest

    try:
        return msgspec.convert(options, TokenRequest)
    except msgspec.ValidationError as error:
        raise errors.BadRequest(f"invalid API key: {error}") from error


@app.command("ls")
def list_(
    revoked: Annotated[bool, typer.Option("--revoked", help="Include revoked keys.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """
    List API keys, without their secrets.

    Example: queen token ls --revoked -o json
    """

    async def read(store: "Store") -> list[Any]:
        rows: list[Any] = []
        while page := await store.keys.list(
            after=rows[-1]["id"] if rows else "", limit=1000, with_revoked=revoked
        ):
            rows += page
        return rows

    from queen.server.auth.api_keys import token_of

    found = [plain_of(token_of(row)) for row in with_store(read)]
    if output is Format.TABLE:
        for row in found:
            row["may"] = row["role"] or ",".join(row["permissions"])
            row["state"] = "revoked" if row["revokedAt"] else "valid"
    show(found, ["id", "name", "may", "expiresAt", "state"], output)


@app.command()
def revoke(
    id_: Annotated[str, typer.Argument(metavar="ID", help="Id from `queen token ls`.")],
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """
    Revoke an API key, on every server within a second.

    Example: queen token revoke 3f9a1c2b7d4e --yes
    """
    if dry_run:
        say(f"would revoke {id_}")
        return
    confirm(f"revoke key {id_}", yes=yes)

    async def end(store: "Store") -> str:
        row = await store.keys.revoke(id_)
        await note(store, "queen token revoke", before={"id": row["id"], "name": row["name"]})
        return row["name"]

    say(f"revoked {with_store(end)}")


def _who() -> str:
    """The account that runs the command."""
    try:
        return f"{_ACTOR}:{getpass.getuser()}"
    except (OSError, KeyError):
        return _ACTOR  # A container's user may have no name.


async def note(
    store: "Store",
    action: str,
    *,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> None:
    """Add a record of this command to the audit log."""
    import msgspec

    from queen.wire.access import AuditRecord

    record = AuditRecord(
        actor=_who(),
        action=action,
        permission="admin",
        queue=None,
        path="",
        source=None,
        request_id="",
        status=200,
        before=msgspec.Raw(msgspec.json.encode(before)),
        after=msgspec.Raw(msgspec.json.encode(after)),
    )
    await store.audit.append(
        actor=record.actor,
        action=action,
        queue=None,
        record=msgspec.json.encode(record).decode(),
    )
