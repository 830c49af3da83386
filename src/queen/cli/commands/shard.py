"""`queen shard`: the databases of one queue, and the slots that move between them."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from queen.cli.command_table import group
from queen.cli.support import exit_codes
from queen.cli.support.client import DryRun, Output, Server, Yes, confirm, run
from queen.cli.support.output import Format, cell, plain_of, say, show, show_one

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from queen import Queen
    from queen.cli.doctor.findings import Finding
    from queen.wire.resources import Operation, Rebalanced

app = group(
    "Move queues between databases, pin partitions, and drain, rebalance and remove databases."
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name in QUEEN_DATABASES.")]
_MEASURES: Final = {
    "bytesPerSecond": "bytes per second",
    "bytes": "stored bytes",
    "slots": "slots with queues",
}
Wait = Annotated[bool, typer.Option("--wait", help="Show the progress until it ends.")]
_POLL_SECONDS: Final = 0.2
_POLLS: Final = 10
"""How many polls until the progress of a slot is read again."""


@app.command("ls")
def list_(
    slots: Annotated[bool, typer.Option("--slots", help="List slots with queues.")] = False,
    pins: Annotated[bool, typer.Option("--pins", help="List pinned partitions.")] = False,
    server: Server = None,
    output: Output = Format.TABLE,
) -> None:
    """
    List databases, or the slots that have queues or are moving, or pinned partitions.

    Example: queen shard ls --slots
    """
    if pins:
        found_pins = run(server, lambda q: q.admin.pins())
        show(found_pins, ["queue", "partition", "slot", "database", "ready"], output)
        return
    found = run(server, lambda q: q.admin.shards())
    if not slots:
        columns = ["name", "available", "slots", "queues", "bytes", "bytesPerSecond"]
        show(found.databases, columns, output)
        return
    rows: list[dict[str, Any]] = [plain_of(each) for each in found.slots]
    if output is Format.TABLE:
        for row in rows:
            row["queues"] = _shortened(row["queues"], row["queueCount"])
            row["hindrances"] = "; ".join(row["hindrances"])
            row["move"] = None if row["move"] is None else _progress(row["move"])
    columns = ["slot", "database", "epoch", "queues", "bytesPerSecond", "move", "hindrances"]
    show(rows, columns, output)


@app.command()
def move(
    to: Annotated[str, typer.Option("--to", metavar="NAME", help="Database to move to.")],
    queue: Annotated[str | None, typer.Option("--queue", help="Move a queue.")] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", help="Move all queues of a namespace.")
    ] = None,
    slot: Annotated[int | None, typer.Option("--slot", help="Move a slot.")] = None,
    wait: Wait = False,
    server: Server = None,
) -> None:
    """
    Move a queue, a namespace or a slot to another database, while it is in use.

    Queues in the same slot move together: see `queen shard ls --slots`.

    Example: queen shard move --queue orders --to two --wait
    """
    _operate(
        server,
        lambda q: q.admin.move_slots(to, slot=slot, queue=queue, namespace=namespace),
        wait=wait,
    )


Queue = Annotated[str, typer.Argument(metavar="QUEUE", help="Queue with placement spread.")]
Partition = Annotated[str, typer.Argument(metavar="PARTITION", help="Name of the partition.")]


@app.command()
def pin(
    queue: Queue,
    partition: Partition,
    name: Annotated[str, typer.Argument(metavar="DATABASE", help="Name in QUEEN_DATABASES.")],
    wait: Wait = False,
    server: Server = None,
) -> None:
    """
    Give a hot partition of a spread queue a slot of its own, before its first message.

    If the partition is pinned already, its slot moves to the database.

    Example: queen shard pin events tenant-7 two --wait
    """

    async def work(queen: "Queen") -> "Operation | None":
        pinned = await queen.admin.pin(queue, partition, name)
        say(f"pinned {partition} of {queue} to slot {pinned.pin.slot} in {pinned.pin.database}")
        if pinned.operation is None:
            return None
        say(f"operation {pinned.operation.id} moves the slot to {name}")
        return await _follow(queen, pinned.operation) if wait else pinned.operation

    operation = run(server, work)
    if operation is not None:
        _conclude(operation, wait=wait)


@app.command()
def unpin(queue: Queue, partition: Partition, server: Server = None) -> None:
    """
    Remove the pin of a partition that does not exist.

    Example: queen shard unpin events tenant-7
    """
    run(server, lambda q: q.admin.unpin(queue, partition))
    say(f"unpinned {partition} of {queue}")


@app.command()
def drain(name: Name, wait: Wait = False, server: Server = None) -> None:
    """
    Move all slots of a database evenly to the others, while they are in use.

    Example: queen shard drain two --wait
    """
    _operate(server, lambda q: q.admin.drain(name), wait=wait)


@app.command()
def rebalance(
    dry_run: DryRun = False,
    yes: Yes = False,
    wait: Wait = False,
    server: Server = None,
    output: Output = Format.TABLE,
) -> None:
    """
    Move slots so that the load of all databases is even, while they are in use.

    The load is payload bytes pushed per second, then stored bytes, then slots with queues. A call
    moves at most 32 slots, the smallest ones that help. It shows the plan, and makes these moves
    after you confirm them.

    Example: queen shard rebalance --dry-run
    """

    async def work(queen: "Queen") -> "Operation | None":
        plan = await queen.admin.rebalance(dry_run=True)
        is_over = dry_run or not plan.moves
        # Scripts get one document, with the operation.
        is_shown_later = yes and not is_over and output is not Format.TABLE
        if not is_shown_later:
            _show_plan(plan, output)
        if is_over:
            return None
        confirm(f"move {_slots(len(plan.moves))}", yes=yes)
        begun = await queen.admin.rebalance(moves=plan.moves)
        if is_shown_later:
            _show_plan(begun, output)
        operation = begun.operation
        return await _follow(queen, operation) if wait and operation else operation

    operation = run(server, work)
    if operation is not None:
        _conclude(operation, wait=wait)


@app.command()
def rm(name: Name, dry_run: DryRun = False, yes: Yes = False, server: Server = None) -> None:
    """
    Remove a database that owns no slots. Its name can't be used again.

    Example: queen shard rm two --yes
    """
    if dry_run:
        databases = run(server, lambda q: q.admin.shards()).databases
        slots = sum(each.slots or 0 for each in databases if each.name == name)
        is_empty = name in {each.name for each in databases} and not slots
        say(
            f"would remove {name}"
            if is_empty
            else f"{name} is not an empty database: {slots} slots"
        )
        return
    confirm(f"remove database {name}", yes=yes)
    run(server, lambda q: q.admin.remove_database(name))
    say(f"removed {name}. Leave it out of QUEEN_DATABASES and restart all servers")


@app.command()
def doctor(
    repair: Annotated[
        bool,
        typer.Option("--repair", help="Let a restored database continue with the others first."),
    ] = False,
    yes: Yes = False,
    output: Output = Format.TABLE,
) -> None:
    """
    Compare all databases in QUEEN_DATABASES. Exit codes: 0 ok, 1 warning, 2 critical.

    Run it after you restored one of them, before a server connects to it.

    Example: queen shard doctor
    """
    from queen.cli.commands.doctor import conclude
    from queen.cli.support.environment import settings

    if repair:
        confirm("repair what a restored database and the others record differently", yes=yes)
    conclude(asyncio.run(_examine(settings().dsns, is_repaired=repair)), output)


async def _examine(dsns: dict[str, str], *, is_repaired: bool) -> "list[Finding]":
    from contextlib import AsyncExitStack

    from queen import errors
    from queen.cli.doctor import restore_findings, slot_findings
    from queen.cli.doctor.findings import CRITICAL, Finding
    from queen.store.checks.comparison import Comparison
    from queen.store.checks.spread_queues import SpreadQueues
    from queen.store.migrations import connected

    names = [*dsns]
    found: list[Finding] = []
    async with AsyncExitStack() as stack:
        connections: dict[str, Any] = {}
        for name, dsn in dsns.items():
            try:
                connections[name] = await stack.enter_async_context(connected(dsn))
            except errors.DatabaseUnavailable as error:
                found.append(Finding(CRITICAL, f"{name}: database", str(error), error.remedy))
        comparison = Comparison(connections, names)
        spread_queues = SpreadQueues(connections, names)
        if is_repaired:
            await comparison.repair()
            await spread_queues.repair()
        moving = {slot for each in await comparison.running_moves() for slot in moving_slots(each)}
        problems = [
            *restore_findings.homes(await comparison.lost_homes(), names[0]),
            *restore_findings.ids(await comparison.newer_ids()),
            *restore_findings.outboxes(await comparison.outboxes()),
            *restore_findings.spread_queues(await spread_queues.stale()),
        ]
        return [*found, *slot_findings.slots(await comparison.slots(), names, moving), *problems]


def moving_slots(arguments: str) -> set[int]:
    """The slots of an operation, from its arguments as JSON."""
    import json

    return {slot for slot, *_ in json.loads(arguments)["moves"]}


def _operate(
    server: str | None, begin: "Callable[[Queen], Awaitable[Operation]]", *, wait: bool
) -> None:
    """Start an operation, and print what it waits for, also without --wait."""

    async def work(queen: "Queen") -> "Operation":
        operation = await begin(queen)
        say(f"operation {operation.id} moves {_slots(operation.total)}")
        if operation.error:
            say(f"it waits: {operation.error}")
        return await _follow(queen, operation) if wait else operation

    _conclude(run(server, work), wait=wait)


def _conclude(operation: "Operation", *, wait: bool) -> None:
    """Print the result of an operation, or how to follow it."""
    if not wait:
        say(f"`queen operation show {operation.id} --wait` follows it")
        return
    say(f"{operation.state}: moved {operation.done} of {_slots(operation.total)}")
    if operation.state != "done":
        if operation.error:
            say(f"queen: {operation.error}")
        raise typer.Exit(exit_codes.FAILED)


def _show_plan(found: "Rebalanced", output: Format) -> None:
    """Print the moves of a plan with their reasons, and the load before and after them."""
    if output is not Format.TABLE:
        show_one(found, output)
        return
    moves: list[dict[str, Any]] = [
        {
            **plain_of(each),
            "queues": _shortened(each.queues, len(each.queues)),
            "reason": f"{each.database} has more {_MEASURES[each.reason]} than {each.to}",
        }
        for each in found.moves
    ]
    if moves:
        show(
            moves, ["slot", "database", "to", "queues", "bytesPerSecond", "bytes", "reason"], output
        )
        print()
    else:
        say("no slot needs to move")
    loads: list[dict[str, Any]] = []
    for each in found.databases:
        before, after = plain_of(each.before), plain_of(each.after)
        changes = {name: f"{cell(before[name])} → {cell(after[name])}" for name in before}
        loads.append({"name": each.name, **changes})
    show(loads, ["name", *_MEASURES], output)


async def _follow(queen: "Queen", operation: "Operation") -> "Operation":
    """Print each change until the operation has ended. Ctrl-C leaves it running."""
    last = (operation.done, operation.error, "")
    polls = 0
    try:
        while operation.state == "running":
            await asyncio.sleep(_POLL_SECONDS)
            operation = await queen.admin.operation(operation.id)
            polls += 1
            # Less often, because all databases are asked.
            copied = await _copied(queen, operation.id) if polls % _POLLS == 0 else last[2]
            now = (operation.done, operation.error, copied)
            if operation.state == "running" and now != last:
                waits = f", waits: {operation.error}" if operation.error else ""
                say(f"moved {operation.done} of {operation.total}{copied}{waits}")
            last = now
    except asyncio.CancelledError:
        say(
            f"\noperation {operation.id} continues: `queen operation cancel {operation.id}` cancels"
            " it"
        )
        raise
    return operation


async def _copied(queen: "Queen", operation_id: str) -> str:
    """How much of the current slot is copied."""
    for slot in (await queen.admin.shards()).slots:
        move = slot.move
        if move is not None and move.operation == operation_id and move.total_bytes:
            return f", slot {slot.slot}: {_share(move.copied_bytes, move.total_bytes)}"
    return ""


def _slots(count: int | None) -> str:
    return "1 slot" if count == 1 else f"{count} slots"


def _progress(move: dict[str, Any]) -> str:
    """The target of a move, and how much of it is copied."""
    copied, total = move["copiedBytes"], move["totalBytes"]
    return f"to {move['to']}, {_share(copied, total)}" if total else f"to {move['to']}"


def _share(copied: int, total: int) -> str:
    # At most 99, because new messages are copied too, and the total is an estimate.
    return f"{min(99, 100 * copied // total)} % copied"


def _shortened(names: list[str], count: int, most: int = 3) -> str:
    more = f" and {count - most} more" if count > most else ""
    return ", ".join(names[:most]) + more
