"""`queen bench`: measure a server under a load that you choose."""

import asyncio
import contextlib
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from queen import errors
from queen.cli.support import exit_codes
from queen.cli.support.client import Output, Server, run
from queen.cli.support.output import Format, plain_of, say, show_one

if TYPE_CHECKING:
    from queen import Queen
    from queen.cli.bench.load import Load, Outcome, Plan


def bench(
    rate: Annotated[
        float, typer.Option(min=0, help="Messages per second. 0 is as fast as possible.")
    ] = 1_000,
    seconds: Annotated[float, typer.Option(min=0.1, max=3600, help="Seconds to push.")] = 10,
    count: Annotated[
        int, typer.Option(min=1, max=10_000_000, help="Maximum number of messages.")
    ] = 100_000,
    size: Annotated[
        int, typer.Option(min=12, max=1_000_000, help="Payload size in bytes, approximately.")
    ] = 256,
    batch: Annotated[int, typer.Option(min=1, max=5_000, help="Messages per push.")] = 10,
    pop_batch: Annotated[
        int, typer.Option(min=1, max=10_000, help="Maximum messages per pop.")
    ] = 100,
    partitions: Annotated[int, typer.Option(min=1, max=1_000, help="Partitions to use.")] = 16,
    producers: Annotated[int, typer.Option(min=1, max=1_000, help="Concurrent pushes.")] = 4,
    consumers: Annotated[int, typer.Option(min=1, max=1_000, help="Concurrent pops.")] = 4,
    keep: Annotated[bool, typer.Option("--keep", help="Don't delete the queue.")] = False,
    server: Server = None,
    output: Output = Format.TABLE,
) -> None:
    """
    Measure a server: rates, latencies, losses, duplicates. Exits with 1 if messages were lost.

    With --rate, latency starts at the scheduled time of a push, so a server that stalls shows a
    high latency. The load uses its own queue, which is deleted at the end. If you run it on the
    server's machine, load and server share its cores.

    Example: queen bench --rate 500 --seconds 5 --size 1000 -o json
    """
    from queen.cli.bench.load import Load, Plan

    most = count if rate == 0 else min(count, max(1, round(rate * seconds)))
    plan = Plan(
        rate=rate,
        seconds=seconds,
        count=most,
        size_bytes=size,
        batch=min(batch, most),
        pop_batch=pop_batch,
        partitions=partitions,
        producers=producers,
        consumers=consumers,
    )

    async def work(queen: "Queen") -> "tuple[dict[str, Any], Outcome]":
        load = Load(queen, plan)
        release = (await queen.admin.health()).get("version")
        configuration = _configuration(queen, plan, load.queue, release)
        if output is Format.TABLE:
            _print_configuration(configuration)
        return configuration, await _measure(queen, load, plan, keep=keep)

    _report(*run(server, work), output)


async def _measure(queen: "Queen", load: "Load", plan: "Plan", *, keep: bool) -> "Outcome":
    """Run the load with progress bars, and delete its queue."""
    try:
        async with asyncio.TaskGroup() as group:
            bars = group.create_task(_progress(load, plan))
            outcome = await load.run()
            bars.cancel()
    finally:
        if not keep:
            with contextlib.suppress(errors.QueenError):
                await queen.admin.delete_queue(load.queue)
    return outcome


def _report(configuration: dict[str, Any], outcome: "Outcome", output: Format) -> None:
    """Print the outcome, and exit with 1 if messages were lost."""
    if output is Format.TABLE:
        _print_outcome(outcome)
    else:
        show_one({"configuration": configuration, **plain_of(outcome)}, output)
    if outcome.lost or outcome.failed:
        say(f"queen: {outcome.lost} lost, {outcome.failed} not confirmed: {outcome.errors}")
        raise typer.Exit(exit_codes.FAILED)


def _configuration(queen: "Queen", plan: "Plan", queue: str, release: str | None) -> dict[str, Any]:
    import os
    import platform

    return {
        "server": ", ".join(queen.config.urls),
        "release": release,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "queue": queue,
        **plain_of(plan),
    }


def _print_configuration(plan: dict[str, Any]) -> None:
    rate = f"{plan['rate']:,g} messages/s" if plan["rate"] else "as fast as possible"
    print(f"server     {plan['server']}, release {plan['release'] or 'unknown'}")
    print(f"client     Python {plan['python']}, {plan['cores']} cores")
    print(f"queue      {plan['queue']}, {plan['partitions']} partitions")
    print(f"load       {rate}, at most {plan['seconds']:g} s and {plan['count']:,} messages")
    sizes = f"pushed by {plan['batch']}, popped by up to {plan['popBatch']}"
    print(f"messages   {plan['sizeBytes']} bytes, {sizes}")
    print(f"parallel   {plan['producers']} pushes, {plan['consumers']} pops", flush=True)


def _print_outcome(outcome: "Outcome") -> None:
    print(f"\n{'':<12}{'messages':>12}{'per second':>14}")
    print(f"{'pushed':<12}{outcome.pushed:>12,}{outcome.pushed_per_second:>14,.1f}")
    print(f"{'received':<12}{outcome.received:>12,}{outcome.received_per_second:>14,.1f}")
    print(f"{'lost':<12}{outcome.lost:>12,}")
    print(f"{'duplicates':<12}{outcome.duplicates:>12,}")
    print(f"{'failed':<12}{outcome.failed:>12,}")
    print(
        f"\n{'ms':<12}" + "".join(f"{name:>10}" for name in ("p50", "p95", "p99", "p99.9", "max"))
    )
    for name, found in (("push", outcome.push_millis), ("end to end", outcome.end_to_end_millis)):
        values = [] if found is None else [found.p50, found.p95, found.p99, found.p999, found.max]
        print(f"{name:<12}" + ("".join(f"{each:>10,.1f}" for each in values) or f"{'-':>10}"))
    since = "the scheduled time of each push" if outcome.is_corrected else "the start of each push"
    print(f"\nLatencies start at {since}.\nEnd to end is until the pop returned.")


async def _progress(load: "Load", plan: "Plan") -> None:
    """Show two bars on a terminal, otherwise nothing."""
    if not sys.stderr.isatty():
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    numbers = TextColumn("{task.completed:>9,.0f} {task.fields[rate]:>9,.0f}/s")
    columns = (TextColumn("{task.description:<9}"), BarColumn(30), numbers, TimeRemainingColumn())
    began = time.monotonic()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        pushed = progress.add_task("pushed", total=plan.count, rate=0.0)
        received = progress.add_task("received", total=plan.count, rate=0.0)
        while True:
            seconds = time.monotonic() - began + 1e-9
            progress.update(pushed, completed=load.pushed, rate=load.pushed / seconds)
            progress.update(received, completed=load.received, rate=load.received / seconds)
            await asyncio.sleep(0.1)
