"""`queen apply` and `queen diff`: queues, schedules and API keys as code."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from queen import errors
from queen.cli.support import exit_codes
from queen.cli.support.client import DryRun, Output, Server, Yes, confirm, run
from queen.cli.support.output import Format, say, show

if TYPE_CHECKING:
    from queen import Queen
    from queen.cli.apply.execution import Execution
    from queen.cli.apply.manifest import Manifest
    from queen.cli.apply.plan import Plan, Rules

Files = Annotated[
    list[str],
    typer.Option(
        "-f", "--file", metavar="FILE", help="Manifest, or a directory of them. - is stdin."
    ),
]
Prune = Annotated[
    bool, typer.Option("--prune", help="Delete objects of the manager that are not listed.")
]
DeleteMessages = Annotated[
    bool, typer.Option("--delete-messages", help="Prune queues with unacknowledged messages, too.")
]
TakeOver = Annotated[
    bool,
    typer.Option(
        "--take-over",
        help="Also change objects of other managers, and API keys without a manager.",
    ),
]


def diff(
    file: Files,
    prune: Prune = False,
    delete_messages: DeleteMessages = False,
    take_over: TakeOver = False,
    server: Server = None,
    output: Output = Format.TABLE,
) -> None:
    """
    Show the changes that `queen apply` would make. Exits with 8 if there are any.

    Example: queen diff -f queen.yaml --prune
    """
    manifest = _read(file)
    rules = _rules(prune=prune, delete_messages=delete_messages, take_over=take_over)
    plan = run(server, lambda queen: _plan(queen, manifest, rules))
    _show(plan, output)
    _reject(plan)
    if plan.changes:
        raise typer.Exit(exit_codes.DIFFERENT)


def apply(
    file: Files,
    prune: Prune = False,
    delete_messages: DeleteMessages = False,
    take_over: TakeOver = False,
    secrets: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Append the secrets of new API keys to FILE, as JSON lines."
        ),
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    server: Server = None,
    output: Output = Format.TABLE,
) -> None:
    """
    Create and change queues, schedules and API keys so that they match a manifest.

    Example: queen apply -f queen.yaml --prune --dry-run
    """
    from queen.cli.apply.secrets import check_secrets

    manifest = _read(file)
    rules = _rules(prune=prune, delete_messages=delete_messages, take_over=take_over)

    plan = run(server, lambda queen: _plan(queen, manifest, rules))
    _show(plan, output)
    _reject(plan)
    if dry_run or not plan.changes:
        return
    check_secrets(plan, secrets, output)
    _confirm(plan, yes=yes)
    # With new connections, because the server may have closed the old ones in the meantime.
    run(server, lambda queen: _execute(queen, plan, rules, secrets))


def _rules(**flags: bool) -> "Rules":
    from queen.cli.apply.plan import Rules

    if flags["delete_messages"] and not flags["prune"]:
        raise errors.BadRequest("--delete-messages needs --prune")
    return Rules(**flags)


def _read(files: list[str]) -> "Manifest":
    from queen.cli.apply.documents import documents_of
    from queen.cli.apply.manifest import manifest_of

    return manifest_of(
        document for name, text in _texts(files) for document in documents_of(name, text)
    )


def _texts(files: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the name and content of each file."""
    for given in files:
        try:
            if given == "-":
                yield "stdin", sys.stdin.read()
                continue
            path = Path(given)
            paths = [path]
            if path.is_dir():
                paths = sorted(
                    each
                    for each in path.iterdir()
                    # Editors write hidden files beside an open one.
                    if each.suffix in (".yaml", ".yml") and not each.name.startswith(".")
                )
                if not paths:
                    raise exit_codes.FileTrouble(f"{given} has no file *.yaml or *.yml")
            for each in paths:
                yield str(each), each.read_text("utf-8")
        except OSError as error:
            raise exit_codes.FileTrouble(f"cannot read {given}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise exit_codes.FileTrouble(f"{given} is not text in UTF-8: {error}") from error


async def _plan(queen: "Queen", manifest: "Manifest", rules: "Rules") -> "Plan":
    from queen.cli.apply.permissions import check_keys, may_manage_keys
    from queen.cli.apply.plan import Planner
    from queen.cli.apply.state import read_backlogs, read_state

    me = await queen.admin.me()
    if manifest.keys:
        check_keys(me)
    with_keys = bool(manifest.keys) or (rules.prune and may_manage_keys(me))
    state = await read_state(queen, messages=manifest.schedules, with_keys=with_keys)
    planner = Planner(manifest, state, rules)
    return planner.plan(await read_backlogs(queen, planner.pruned_queues))


def _show(plan: "Plan", output: Format) -> None:
    from queen.cli.apply.text import plan_lines, plan_rows, summary

    if output is Format.TABLE:
        for line in plan_lines(plan):
            print(line)
    else:
        show(plan_rows(plan), ["name", "kind", "action"], output)
    for note in plan.notes:
        say(f"note: {note}")
    say(f"{plan.manager}: {summary(plan)}")


def _reject(plan: "Plan") -> None:
    """End the command if the plan has conflicts, before any change is made."""
    if plan.conflicts:
        for conflict in plan.conflicts:
            print(f"queen: {conflict}", file=sys.stderr)
        print("queen: no changes were made", file=sys.stderr)
        raise typer.Exit(exit_codes.CONFLICT)


def _confirm(plan: "Plan", *, yes: bool) -> None:
    from queen.cli.apply.text import counted

    if deleted := [each for each in plan.changes if each.action == "delete"]:
        confirm(f"delete {counted(deleted)}", yes=yes)


async def _execute(queen: "Queen", plan: "Plan", rules: "Rules", secrets: str | None) -> None:
    from queen.cli.apply.execution import Execution
    from queen.cli.apply.permissions import check_permissions
    from queen.cli.apply.secrets import Secrets

    check_permissions(await queen.admin.me(), plan)
    with Secrets(plan, secrets) as kept:
        execution = Execution(queen, plan, rules, kept.keep)
        try:
            await execution.run()
        finally:
            _report(execution)
    if execution.failed:
        codes = {
            exit_codes.FAILED
            if isinstance(error, exit_codes.FileTrouble)
            else exit_codes.exit_code(error)
            for _, error in execution.failed
        }
        raise typer.Exit(codes.pop() if len(codes) == 1 else exit_codes.FAILED)


def _report(execution: "Execution") -> None:
    """Print the outcome. After a failure or an interrupt, print it for each change."""
    from queen.cli.apply.text import amount, title

    applied, failed = execution.applied, execution.failed
    if len(applied) == execution.count:
        say(f"applied {amount(len(applied), 'change')}")
        return
    for change in applied:
        print(f"applied        {title(change)}", file=sys.stderr)
    for change, error in failed:
        print(f"failed         {title(change)}: {error}", file=sys.stderr)
    for change in execution.unknown:
        print(f"unknown        {title(change)}", file=sys.stderr)
    for change in execution.pending:
        print(f"not attempted  {title(change)}", file=sys.stderr)
    remedy = "Correct the causes, and run the same command again."
    if not failed:
        remedy = "The command did not complete. Run it again to make the others."
    total = amount(execution.count, "change")
    print(f"queen: applied {len(applied)} of {total}. {remedy}", file=sys.stderr)
