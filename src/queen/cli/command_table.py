"""All commands. Each is loaded when it is run, so that `--help` is quick."""

from importlib import import_module
from typing import Any, Final, NamedTuple

import typer
from typer.core import TyperGroup

from queen.cli.support.exit_codes import exit_closed_pipe


class Place(NamedTuple):
    """Where a command or a group of commands lives, and its one line of help."""

    home: str
    """Module and name in it."""
    help: str


SECTIONS: Final[dict[str, dict[str, Place]]] = {
    "Run": {
        "dev": Place("dev:dev", "Start everything to try Queen out: not for production."),
        "serve": Place("serve:serve", "Serve HTTP until stopped."),
        "worker": Place("worker:worker", "Run the jobs of an application until stopped."),
        "relay": Place("relay:relay", "Push what an application enqueued in its own database."),
        "migrate": Place("migrate:app", "Tables and functions of the database."),
    },
    "Check": {
        "top": Place("top:top", "Watch queues live: lag, rates, ages, deliveries."),
        "bench": Place("bench:bench", "Measure a server: rates, latencies, losses, duplicates."),
        "doctor": Place("doctor:doctor", "Look for what hurts: 0 well, 1 warning, 2 critical."),
        "backup-check": Place(
            "backup:backup_check",
            "Say whether a database can be restored, or a restored one is whole.",
        ),
        "health": Place("health:health", "Ask a server how it is: 0 well, 2 not."),
        "version": Place("health:version", "Print the release."),
        "config": Place("config:app", "What is set, and by what."),
        "debug": Place("debug:app", "For those who help."),
        "errors": Place("health:explain", "Say what an error code means and what to do."),
    },
    "Messages": {
        "push": Place("data.messages:push", "Push messages."),
        "pop": Place("data.messages:pop", "Pop messages; what is not acked comes again."),
        "ack": Place("data.messages:ack", "Say that a message is done, or that it failed."),
        "nack": Place("data.messages:nack", "Give a message back, to come again later."),
        "tail": Place("data.tail:tail", "Follow a queue without taking anything."),
        "peek": Place("data.messages:peek", "Look at messages without taking them."),
        "message": Place("data.browse:message_app", "Single messages."),
        "trace": Place("data.browse:trace_app", "What consumers told of messages."),
    },
    "Manage": {
        "queue": Place("data.queues:queue_app", "Queues."),
        "partition": Place("data.queues:partition_app", "Partitions of a queue."),
        "delivery": Place("data.queues:delivery_app", "What is out or comes again."),
        "group": Place("data.groups:app", "Consumer groups."),
        "dlq": Place("data.dead_letters:app", "Dead letters."),
        "job": Place("data.jobs:app", "Jobs of a queue."),
        "cron": Place("data.cron:app", "Messages that come again and again."),
        "operation": Place("data.operations:app", "Long work on the server."),
        "pipeline": Place(
            "data.pipeline:app", "Jobs on Spark: archive, rollup, window, replay, compact."
        ),
    },
    "Admin": {
        "token": Place("token:app", "Keys of callers, in the database itself."),
        "key": Place("master_key:app", "Master keys of encrypted queues."),
        "audit": Place("audit:app", "The log of what callers did."),
        "context": Place("context:app", "Servers under short names."),
        "export": Place("data.transfer:export", "Write the messages of a queue as lines of JSON."),
        "import": Place("data.transfer:import_", "Push what `queen export` wrote."),
        "generate": Place("generate:app", "Files for other tools."),
    },
}
PLACES: Final = {name: place for section in SECTIONS.values() for name, place in section.items()}


def group(help_: str) -> typer.Typer:
    """A group of commands. Help is plain: rich takes longer to load than all else together."""
    return typer.Typer(
        no_args_is_help=True, add_completion=False, rich_markup_mode=None, help=help_
    )


class Commands(TyperGroup):
    """The commands of `SECTIONS`."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 - typer's own, and private
        del ctx
        return list(PLACES)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401 - typer's own
        del ctx
        place = PLACES.get(cmd_name)
        if place is None:
            return None
        module, _, name = place.home.partition(":")
        found = getattr(import_module(f"queen.cli.commands.{module}"), name)
        if not isinstance(found, typer.Typer):
            alone = typer.Typer(add_completion=False, rich_markup_mode=None)
            alone.command(cmd_name)(found)
            found = alone
        return typer.main.get_command(found)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - typer's own
        if args[0] not in PLACES and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], PLACES, n=1)
            ctx.fail(
                f"there is no command {args[0]}" + (f"; did you mean {near[0]}?" if near else "")
            )
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - typer's own
        # Before typer sees it, for which it is a failure.
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            exit_closed_pipe()

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - typer's own
        del ctx
        for title, section in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, place.help) for name, place in section.items()])
