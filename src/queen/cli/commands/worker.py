"""`queen worker`: run the jobs of an application in one or more processes."""

import asyncio
import re
import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from queen import errors
from queen.cli.support.output import say

if TYPE_CHECKING:
    from queen.jobs import QueueManager
    from queen.jobs.pool.process import Task


class Range(NamedTuple):
    """The minimum and maximum number of processes."""

    least: int
    most: int


def worker(
    app: Annotated[
        str, typer.Argument(metavar="MODULE:app", help="Module and name of a QueueManager.")
    ],
    queues: Annotated[
        str | None, typer.Option(help="Only these queues, with commas.", show_default=False)
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(
            "-c",
            "--concurrency",
            min=1,
            help="Concurrent jobs per queue. Default: WORKER_CONCURRENCY, or 10.",
            show_default=False,
        ),
    ] = None,
    processes: Annotated[int, typer.Option(min=1, help="Number of worker processes.")] = 1,
    autoscale: Annotated[
        str | None,
        typer.Option(metavar="MIN..MAX", help="Scale processes with the backlog: 1..16."),
    ] = None,
    interval: Annotated[str, typer.Option(help="Time between --autoscale checks.")] = "30s",
    shutdown_timeout: Annotated[
        str, typer.Option(help="Time that running jobs have to finish after SIGTERM.")
    ] = "30s",
) -> None:
    """
    Run the jobs of an application until stopped.

    SIGTERM and Ctrl-C drain it: the worker stops fetching jobs, finishes running jobs, and returns
    the rest without counting an attempt. A second signal stops it immediately.

    Example: queen worker shop.jobs:app --concurrency 20 --queues email,reports
    """
    from queen.client.durations import seconds_of
    from queen.jobs.environment import concurrency_of, log_to_stderr
    from queen.jobs.pool.loader import load
    from queen.jobs.pool.process import Task, leave, new_loop

    log_to_stderr()
    found = load(app)
    scale = _range(autoscale, processes)
    task = Task(
        app=app,
        queues=_chosen(found, queues),
        concurrency=concurrency_of(concurrency),
        shutdown_seconds=seconds_of(shutdown_timeout),
    )
    _describe(found, task.queues or found.queues, task.concurrency, scale)
    is_many = scale != (1, 1)
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(_run_many(task, scale, interval) if is_many else _run_one(found, task))
    leave(0)


def _range(text: str | None, processes: int) -> Range:
    if text is None:
        return Range(processes, processes)
    match = re.fullmatch(r"(\d+)\.\.(\d+)", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise errors.BadRequest(f"{text!r} is not a range of processes: write 1..16")
    if processes != 1:
        raise errors.BadRequest("use --processes or --autoscale, not both")
    return Range(int(match[1]), int(match[2]))


def _chosen(app: "QueueManager", queues: str | None) -> list[str] | None:
    if queues is None:
        return None
    names = [name.strip() for name in queues.split(",") if name.strip()]
    for name in names:
        if name not in app.queues:
            raise errors.BadRequest(
                f"no processor is registered for queue {name}; there are {', '.join(app.queues)}"
            )
    if not names:
        raise errors.BadRequest("--queues contains no queue name")
    return names


def _describe(app: "QueueManager", queues: Sequence[str], concurrency: int, scale: Range) -> None:
    say(f"running jobs of {', '.join(app.queen.config.urls)}")
    for (queue, name), processor in app.processors.items():
        if queue in queues:
            how = "coroutine" if processor.is_async else "thread"
            how = "process" if processor.settings.is_process else how
            say(
                f"  {queue}: {name or 'every name'} ({how}, {processor.settings.attempts} attempts)"
            )
    if scale == (1, 1):
        many = "1 process"
    elif scale.least == scale.most:
        many = f"{scale.least} processes, each"
    else:
        many = f"{scale.least} to {scale.most} processes, each"
    say(f"{many} with {concurrency} concurrent jobs per queue")


async def _run_one(app: "QueueManager", task: "Task") -> None:
    from queen.jobs.worker.worker import Worker

    worker = Worker(
        app,
        queues=task.queues,
        concurrency=task.concurrency,
        shutdown_timeout=task.shutdown_seconds,
    )
    async with app.queen:
        await worker.run(handle_signals=True)
    done = worker.stats
    say(f"drained: {done.completed} completed, {done.retried} retried, {done.failed} failed")


async def _run_many(task: "Task", scale: Range, interval: str) -> None:
    from queen.jobs.pool.manager import WorkerManager

    workers = WorkerManager(min_workers=scale.least, max_workers=scale.most)
    stop = asyncio.Event()

    def on_signal() -> None:
        if stop.is_set():
            workers.hurry()
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, on_signal)
    await workers.initialize_worker_pool(
        task.app,
        queues=task.queues,
        concurrency=task.concurrency,
        shutdown_timeout=task.shutdown_seconds,
    )
    if scale.least != scale.most:
        workers.start_auto_scaling(interval)
    await stop.wait()
    await workers.shutdown()
    say("drained")
