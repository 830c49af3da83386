"""Check the permissions of the caller before the first request is sent that could be rejected."""

from collections.abc import Iterator

from queen import errors
from queen.cli.apply.plan import Change, Plan
from queen.cli.apply.text import title
from queen.wire.access import Me


def may_manage_keys(me: Me) -> bool:
    """Whether the caller may list and change API keys."""
    return "admin" in me.permissions and me.scopes is None


def check_keys(me: Me) -> None:
    """Raise Forbidden if the caller cannot read the API keys that a manifest has."""
    if not may_manage_keys(me):
        raise errors.Forbidden(
            f"The manifest has API keys, and {me.name} cannot read them. Use a key with the admin"
            " permission and without scopes, or move keys to a manifest with another manager."
        )


def check_permissions(me: Me, plan: Plan) -> None:
    """Raise Forbidden if a change needs a permission that the caller lacks."""
    for change in plan.changes:
        missing = [each for each in _needed(change) if each not in me.permissions]
        if missing:
            raise errors.Forbidden(
                f"{me.name} lacks the permission {missing[0]}, which the change `{title(change)}`"
                " needs. Use an API key with this permission. No changes were made."
            )


def _needed(change: Change) -> Iterator[str]:
    if change.kind == "key":
        yield "admin"
    elif (change.kind, change.action) == ("queue", "delete"):
        yield "destroy"
    else:
        yield "configure"
        if change.kind == "schedule" and change.action != "delete":
            yield "produce"  # A schedule pushes on behalf of its creator.
