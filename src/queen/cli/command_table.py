"""All commands. A command is imported only when it runs, so that `--help` is fast."""

from importlib import import_module
from typing import Any, Final, NamedTuple

import typer
from typer.core import TyperGroup

from queen.cli.support.exit_codes import exit_closed_pipe


class Place(NamedTuple):
    """The import path of a command or a command group, and its one line of help."""

    home: str
    """Module and attribute, `module:attribute`."""
    help: str


SECTIONS: Final[dict[str, dict[str, Place]]] = {
    "Run": {
        "dev": Place("dev:dev", "Start a local server and database to try Queen."),
        "serve": Place("serve:serve", "Serve HTTP until stopped."),
        "worker": Place("worker:worker", "Run the jobs of an application until stopped."),
        "relay": Place("relay:relay", "Push messages from an application's outbox table."),
        "migrate": Place("migrate:app", "Create and upgrade the database schema."),
    },
    "Check": {
        "top": Place("top:top", "Watch queues live: lag, rates, ages, deliveries."),
        "bench": Place("bench:bench", "Measure a server: rates, latencies, losses, duplicates."),
        "doctor": Place("doctor:doctor", "Check the database and the servers for problems."),
        "backup-check": Place(
            "backup:backup_check",
            "Check that a database can be restored, or that a restored copy is intact.",
        ),
        "health": Place("health:health", "Check the health of a server."),
        "version": Place("health:version", "Print the release."),
        "config": Place("config:app", "Show the settings and where they come from."),
        "debug": Place("debug:app", "Collect diagnostics for a bug report."),
        "errors": Place("health:explain", "Explain an error code."),
    },
    "Messages": {
        "push": Place("data.messages:push", "Push messages."),
        "pop": Place("data.messages:pop", "Pop messages."),
        "ack": Place("data.messages:ack", "Acknowledge a message, or report that it failed."),
        "nack": Place("data.messages:nack", "Return a message, to be redelivered later."),
        "tail": Place("data.tail:tail", "Follow a queue without consuming its messages."),
        "peek": Place("data.messages:peek", "Show messages without consuming them."),
        "message": Place("data.browse:message_app", "Show, retry and delete single messages."),
        "trace": Place("data.browse:trace_app", "Show trace events that consumers recorded."),
    },
    "Manage": {
        "apply": Place(
            "apply:apply", "Create and change queues, schedules and API keys by a manifest."
        ),
        "diff": Place("apply:diff", "Show the changes that `queen apply` would make."),
        "queue": Place("data.queues:queue_app", "List, configure, pause and delete queues."),
        "partition": Place("data.queues:partition_app", "List the partitions of a queue."),
        "delivery": Place("data.queues:delivery_app", "List and release leased messages."),
        "group": Place("data.groups:app", "List, move and delete consumer groups."),
        "dlq": Place("data.dead_letters:app", "List, redrive and purge dead letters."),
        "job": Place("data.jobs:app", "List, add and cancel jobs."),
        "cron": Place("data.cron:app", "Manage schedules of recurring messages."),
        "operation": Place("data.operations:app", "Follow and cancel long operations."),
        "pipeline": Place(
            "data.pipeline:app",
            "Run pipelines: archive, compact, recall, replay, rollup, transform, window.",
        ),
        "stream": Place("data.stream:app", "Repair the checkpoints of Spark streams."),
    },
    "Admin": {
        "shard": Place("shard:app", "Move queues between databases."),
        "token": Place("token:app", "Manage API keys, directly in the database."),
        "key": Place("master_key:app", "Manage the master keys of encrypted queues."),
        "audit": Place("audit:app", "Verify the audit log."),
        "context": Place("context:app", "Manage short names for servers."),
        "export": Place("data.transfer:export", "Write the messages of a queue as JSON lines."),
        "import": Place("data.transfer:import_", "Push messages from a `queen export` file."),
        "generate": Place("generate:app", "Generate files for other tools."),
    },
}
PLACES: Final = {name: place for section in SECTIONS.values() for name, place in section.items()}


def group(help_: str) -> typer.Typer:
    """Return a command group. Its help is plain text because rich is slow to import."""
    app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None, help=help_)
    app.callback()(lambda: None)  # Otherwise typer merges a group with its only command.
    return app


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
                f"command {args[0]} does not exist" + (f"; did you mean {near[0]}?" if near else "")
            )
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - typer's own
        # Caught here because typer would report it as a failure.
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            exit_closed_pipe()

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - typer's own
        del ctx
        for title, section in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, place.help) for name, place in section.items()])
