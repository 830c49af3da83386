"""Where pipelines run: Spark or this process, with progress, signals and errors."""

import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NoReturn

import typer

from queen import errors
from queen.cli.support import exit_codes
from queen.cli.support.output import pairs_of, say
from queen.cli.support.spark import needs_spark

if TYPE_CHECKING:
    from queen.pipelines.logs import RunLog


class Engine(StrEnum):
    """What runs a pipeline."""

    SPARK = "spark"
    LOCAL = "local"


class Place(NamedTuple):
    """Where a pipeline runs."""

    engine: Engine
    master: str
    confs: dict[str, str]


EngineName = Annotated[
    Engine,
    typer.Option(help="local runs archive and compact in this process, without Spark and Java."),
]
Master = Annotated[
    str | None,
    typer.Option(help="Spark master: spark://…, k8s://… Default: local[*].", show_default=False),
]
Conf = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="A Spark setting. Repeatable."),
]


def place_of(kind: str, engine: Engine, master: str | None, confs: list[str] | None) -> Place:
    """Check where a pipeline shall run."""
    from queen.pipelines.kinds import LOCAL_KINDS

    if engine is Engine.LOCAL and kind not in LOCAL_KINDS:
        raise errors.InvalidOption(
            f"a pipeline {kind} needs Spark: --engine local runs {', '.join(LOCAL_KINDS)}"
        )
    if engine is Engine.LOCAL and (master is not None or confs):
        raise errors.InvalidOption("--master and --conf need --engine spark")
    return Place(engine, master or "local[*]", pairs_of(confs, "--conf NAME=VALUE"))


@contextmanager
def runner_of(place: Place, name: str, log: "RunLog | None") -> Generator[Any]:
    """Start the engine of a run."""
    if place.engine is Engine.LOCAL:
        from queen.pipelines.local import LocalRunner

        yield LocalRunner()
        return
    from queen.spark.runner.session import SparkRunner, session

    say(f"{name}: starting Spark on {place.master}")
    with session(name, place.master, place.confs, log=log) as spark:
        yield SparkRunner(spark)


@contextmanager
def until_stopped(name: str, log: "RunLog | None") -> Generator[None]:
    """Stop a pipeline cleanly on SIGTERM. Prints an error as a sentence, and logs its trace."""

    def stop(*_: object) -> NoReturn:
        raise SystemExit(0)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        with needs_spark():
            yield
    except KeyboardInterrupt as error:
        raise typer.Exit(exit_codes.INTERRUPTED) from error
    except typer.Exit:
        raise
    except Exception as error:
        if log is None:
            raise
        from queen.pipelines.report import reason

        log.write_trace(error)
        say(f"{name}: failed. The whole error is in {log.path}")
        found = error if isinstance(error, errors.QueenError) else reason(error)
        if isinstance(found, errors.QueenError):
            raise found from error
        print(f"queen: {found}", file=sys.stderr)
        raise typer.Exit(exit_codes.FAILED) from error
    finally:
        signal.signal(signal.SIGTERM, before)


def read_yaml(file: Path) -> object:
    """Read a YAML or JSON file."""
    import yaml

    try:
        return yaml.safe_load(file.read_text("utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise exit_codes.FileTrouble(f"{file}: {error}") from error
