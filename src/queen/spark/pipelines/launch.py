"""Run a pipeline by its kind: parse its options, create a session, and report the run."""

# pyright: basic

import ast
import inspect
import os
import shutil
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import datetime
from difflib import get_close_matches
from importlib import import_module, resources
from itertools import pairwise
from types import NoneType, UnionType
from typing import Any, Final, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from queen import errors
from queen.spark import register
from queen.spark.pipelines.listener import listening
from queen.spark.pipelines.report import Report

MODULES: Final = {
    "archive": "archive",
    "compact": "compact",
    "replay": "replay",
    "rollup": "rollup",
    "window": "windows",
}
"""Modules by kind, as used on the command line."""
SPARK_ERRORS: Final = (PySparkException, Py4JError)
_SOURCES: Final = ("queues", "queue", "from_queue")
"""Names of configuration fields that contain the queues to read."""
_TARGETS: Final = ("to_queue", "target", "table", "path", "location")
"""Names of configuration fields that contain the destination."""
_TYPE_NAMES: Final[Mapping[Any, str]] = {
    bool: "bool",
    datetime: "time",
    dict: "mapping",
    float: "float",
    int: "int",
    str: "str",
    tuple: "list",
}


class Job(NamedTuple):
    """A kind of pipeline."""

    kind: str
    config: type[msgspec.Struct]
    run: Callable[..., Any]


class Option(NamedTuple):
    """A field of a pipeline's configuration."""

    name: str
    type: str
    default: str | None
    """None if it is required."""
    help: str


def job(kind: str) -> Job:
    """Return a pipeline by its kind."""
    module = import_module(f"queen.spark.pipelines.{MODULES[kind]}")
    return Job(kind, module.Config, module.run)


def options(job: Job) -> list[Option]:
    """List the options of a pipeline."""
    told, types = _docstrings(job.config), get_type_hints(job.config)
    return [
        Option(
            field.encode_name,
            _type_name(types[field.name]),
            None if field.required else _default(field),
            told.get(field.name, ""),
        )
        for field in msgspec.structs.fields(job.config)
    ]


def configured(job: Job, given: Mapping[str, Any], *, dsn: str | None) -> Any:  # noqa: ANN401 - its Config
    """Create the configuration, also from texts of a command line. Raises InvalidOption."""
    names = job.config.__struct_encode_fields__
    for name in given:
        if name not in names:
            near = get_close_matches(name, names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(names)}"
            raise errors.InvalidOption(f"a pipeline {job.kind} has no option {name}; {hint}")
    filled = dict(given)
    if dsn is not None and "dsn" in names:
        filled.setdefault("dsn", dsn)
    try:
        return msgspec.convert(filled, job.config, strict=False)
    except (msgspec.ValidationError, ValueError) as error:
        raise errors.InvalidOption(f"pipeline {job.kind}: {error}") from error


@contextmanager
def session(
    name: str, master: str, confs: Mapping[str, str], *, is_quiet: bool = True
) -> Iterator[SparkSession]:
    """Start a session, and stop it at the end."""
    if "JAVA_HOME" not in os.environ and shutil.which("java") is None:
        raise errors.BadSettings("Spark needs Java 17 or later: install it and add it to the PATH")
    settings = {"spark.sql.session.timeZone": "UTC", **confs}
    python = settings.get("spark.pyspark.python")
    if master.startswith("local"):
        # Tasks are processes on this machine, and need the packages of this environment.
        python = python or os.environ.get("PYSPARK_PYTHON") or sys.executable
        settings.setdefault("spark.driver.host", "127.0.0.1")
        settings.setdefault("spark.driver.bindAddress", "127.0.0.1")
    if is_quiet:
        java = "spark.driver.extraJavaOptions"
        path = resources.files("queen.spark.pipelines") / "log4j2.properties"
        settings[java] = f"{settings.get(java, '')} -Dlog4j2.configurationFile={path}".strip()
        settings.setdefault("spark.ui.showConsoleProgress", "false")
    if python is not None:
        # A driver that was not started by `spark-submit` reads only this variable.
        os.environ["PYSPARK_PYTHON"] = python
    builder = SparkSession.builder.master(master).appName(name)
    for each, value in settings.items():
        builder = builder.config(each, value)
    spark = builder.getOrCreate()
    if is_quiet:
        spark.sparkContext.setLogLevel("ERROR")
    try:
        register(spark)
        yield spark
    finally:
        for query in spark.streams.active:
            query.stop()
        spark.stop()


@contextmanager
def reporting(job: Job, config: Any, name: str, spark: SparkSession) -> Iterator[Report]:  # noqa: ANN401 - its Config
    """Report one run, including the streaming queries that it starts."""
    queues, target = _first(config, _SOURCES) or (), _first(config, _TARGETS)
    with (
        Report(
            config.dsn,
            name=name,
            kind=job.kind,
            queues=[queues] if isinstance(queues, str) else [str(each) for each in queues],
            target=None if target is None else str(target),
            ui_url=spark.sparkContext.uiWebUrl,
        ) as report,
        listening(spark, report),
    ):
        yield report


def run(job: Job, spark: SparkSession, config: Any, report: Report) -> Any:  # noqa: ANN401 - its own
    """
    Run a pipeline in its own thread, so that this thread can be interrupted.

    A thread that waits for Spark blocks its connection to Java, and so can't stop the run.
    """
    future: Future[Any] = Future()

    def work() -> None:
        try:
            # Makes the session active in this thread too, because Spark looks up formats by it.
            spark.createDataFrame([], "nothing int")
            future.set_result(job.run(spark, config, report=report))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, name=f"queen-{job.kind}", daemon=True).start()
    return future.result()


def name_of(job: Job, config: Any) -> str:  # noqa: ANN401 - its Config
    """Return the default name of a run."""
    named = _first(config, ("name", *_SOURCES))
    return f"{job.kind}-{named}" if isinstance(named, str) else job.kind


def _first(config: Any, names: Sequence[str]) -> Any:  # noqa: ANN401 - its Config
    return next((value for each in names if (value := getattr(config, each, None))), None)


def _docstrings(config: type) -> dict[str, str]:
    """Return the docstrings of the fields, which Python does not store."""
    found: dict[str, str] = {}
    for base in reversed(config.__mro__[:-2]):  # Without Struct and object.
        try:
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        except (OSError, TypeError, ValueError):
            continue
        body = tree.body if isinstance(tree, ast.ClassDef) else []
        for field, below in pairwise(body):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                text = below.value if isinstance(below, ast.Expr) else None
                if isinstance(text, ast.Constant) and isinstance(text.value, str):
                    found[field.target.id] = " ".join(text.value.split())
    return found


def _type_name(type_: Any) -> str:  # noqa: ANN401 - whatever annotates a field
    """Name a type for people: int, list, mapping, time, or the allowed values."""
    of, inner = get_origin(type_), [each for each in get_args(type_) if each is not NoneType]
    if of is Literal:
        return " | ".join(inner)
    if of in (Union, UnionType):
        return _type_name(inner[0])
    if of in _TYPE_NAMES:
        return _TYPE_NAMES[of]
    return "mapping" if issubclass(type_, msgspec.Struct) else _TYPE_NAMES[type_]


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.default is not msgspec.NODEFAULT:
        return str(field.default)
    factory = field.default_factory
    return "" if factory is msgspec.NODEFAULT else str(factory())
