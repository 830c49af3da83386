"""Tutorials work from the top: every command runs, and prints the output that the page shows."""

import re
import subprocess
import sys
import time
from pathlib import Path

import asyncpg
import pytest

from queen import Queen, outbox
from tests.support.server import Server
from tests.support.tutorial import Tutorial, is_like

DOCS = Path(__file__).parents[2] / "docs"
LEFT_OUT = {
    "pip ": "it needs a package index, and this environment has the packages",
    "cd ": "it leads to the reader's checkout",
}
"""Commands that don't run here, by their beginning, and why."""
SKIPPED = {
    "install": {
        *("cd queen", "pip install '.[server]'", "pip wheel . --no-deps --wheel-dir dist"),
        "pip install 'dist/queenmq-0.1.0-py3-none-any.whl[server]'",
        *("pip install 'queenmq[jobs]'", "pip uninstall --yes queenmq"),
        *("pip uninstall --yes queen-mq", "pip install --force-reinstall --no-deps ."),
    },
    "jobs": set[str](),
    "messages": set[str](),
    "python": set[str](),
}
"""Pages, and the commands on them that don't run here."""
LEFT_OUT_OF_SPARK = {
    "export DATABASE_URL=": "the test has set it",
    "create role": "roles belong to the whole PostgreSQL of all tests",
    "queen pipeline archive --config": "it needs a cluster: tests/spark/test_cluster.py has one",
    "spark-class": "likewise",
    "spark-submit --master yarn": "it needs YARN",
    "spark-submit --master k8s": "it needs Kubernetes",
}
SPARK_SKIPPED = {
    "archive": set[str](),
    "foreach-batch": set[str](),
    "from-kafka": set[str](),
    "replay": set[str](),
    "rollup": set[str](),
    "run-pipelines": {
        "pip install 'queenmq[pyspark]'",
        "export DATABASE_URL=postgresql://pipelines:…@db/queen",
        "create role pipelines login password '…' in role queen_pipeline;",
        "queen pipeline archive --config archive.yaml --master spark://spark:7077"
        " --conf spark.pyspark.python=/opt/queen/bin/python --conf spark.executor.memory=2g"
        " --conf spark.cores.max=8",
        'spark-class org.apache.spark.deploy.master.Master --host "$HOSTNAME"',
        "spark-class org.apache.spark.deploy.worker.Worker spark://spark:7077"
        " --cores 4 --memory 8g",
        "spark-submit --master yarn --deploy-mode cluster --archives queen.tar.gz#queen"
        " --conf spark.pyspark.python=./queen/bin/python archive_orders.py",
        "spark-submit --master k8s://https://kubernetes:6443 --deploy-mode cluster"
        " --conf spark.kubernetes.container.image=registry.example/queen-spark:1"
        " --conf spark.kubernetes.driver.secretKeyRef.DATABASE_URL=queen:dsn"
        " --conf spark.executor.instances=4 local:///opt/queen/archive.py",
    },
    "recall": set[str](),
    "transform": set[str](),
    "windows": set[str](),
}
"""Pages about Spark, and the commands on them that don't run here."""
FIRST_CHART_SECONDS = 300


@pytest.mark.timeout(120)  # Each starts PostgreSQL, a server and a dozen commands.
@pytest.mark.parametrize("name", SKIPPED)
def test_a_page_works_from_the_top(name: str, tmp_path: Path) -> None:
    tutorial = Tutorial(DOCS / "start" / f"{name}.md", tmp_path, LEFT_OUT)
    tutorial.follow()
    assert set(tutorial.skipped) == SKIPPED[name]


@pytest.mark.nightly  # Each starts Spark several times.
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", SPARK_SKIPPED)
def test_a_spark_page_works_from_the_top(name: str, own_process: Server, tmp_path: Path) -> None:
    tutorial = Tutorial(DOCS / "spark" / f"{name}.md", tmp_path, LEFT_OUT | LEFT_OUT_OF_SPARK)
    tutorial.follow(
        DATABASE_URL=own_process.environment["DATABASE_URL"],
        QUEEN_BASE_URL=own_process.base_url,
        SPARK_LOCAL_IP="127.0.0.1",
        # Tasks import packages of the environment that runs the command.
        PYSPARK_PYTHON=sys.executable,
    )
    assert set(tutorial.skipped) == SPARK_SKIPPED[name]


def test_every_spark_page_is_followed() -> None:
    pages = {path.stem for path in (DOCS / "spark").glob("*.md")}
    # Their commands need a failover, an object store or a catalog, so this test can't run them.
    # tests/spark/sink/test_rewind.py and tests/spark/lakes test the functions behind them. The
    # tests of fleets and of the tutorial are in other files.
    others = {"fleet", "tutorial", "streams", "object-stores", "catalogs"}
    assert pages - others == set(SPARK_SKIPPED)


@pytest.mark.nightly
@pytest.mark.timeout(120)  # It starts a dozen commands, but no Spark.
def test_the_page_about_fleets_works(own_process: Server, tmp_path: Path) -> None:
    tutorial = Tutorial(DOCS / "spark" / "fleet.md", tmp_path, {})
    tutorial.follow(
        DATABASE_URL=own_process.environment["DATABASE_URL"], QUEEN_BASE_URL=own_process.base_url
    )


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_the_spark_tutorial_works(tmp_path: Path) -> None:
    tutorial = Tutorial(DOCS / "spark" / "tutorial.md", tmp_path, LEFT_OUT)
    tutorial.follow(SPARK_LOCAL_IP="127.0.0.1")
    assert tutorial.skipped == ["pip install 'queenmq[pyspark]' duckdb matplotlib"]
    assert (tmp_path / "revenue.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_a_chart_of_a_queue_takes_five_minutes_from_an_empty_environment(folder: Path) -> None:
    """Includes the download of Spark, from the package index that this machine uses."""
    wheels, environment = folder / "wheels", folder / "environment"
    _run(sys.executable, "-m", "build", "--wheel", "--outdir", wheels, DOCS.parent)
    began_at = time.monotonic()
    _run(sys.executable, "-m", "venv", environment)
    python = environment / "bin" / "python"
    _run(python, "-m", "pip", "install", "--find-links", wheels, "queenmq[server]")

    tutorial = Tutorial(DOCS / "spark" / "tutorial.md", folder, {})
    tutorial.follow(
        until="python revenue.py",
        PATH=f"{environment}/bin:/usr/local/bin:/usr/bin:/bin",
        PYTHONPATH="",
        PIP_FIND_LINKS=str(wheels),
        SPARK_LOCAL_IP="127.0.0.1",
    )

    took = time.monotonic() - began_at
    assert (folder / "revenue.png").read_bytes().startswith(b"\x89PNG")
    assert took <= FIRST_CHART_SECONDS, f"{took:.0f} s"


def _run(*command: object) -> None:
    subprocess.run([str(each) for each in command], check=True, stdout=subprocess.DEVNULL)


def test_every_page_for_beginners_is_followed() -> None:
    with_own_tests = {"examples", "index", "sql"}
    pages = {path.stem for path in (DOCS / "start").glob("*.md")}
    assert pages - with_own_tests == set(SKIPPED)


async def test_only_the_committed_messages_of_the_sql_quickstart_arrive(process: Server) -> None:
    page = (DOCS / "start" / "sql.md").read_text("utf-8")
    (statements,) = re.findall(r"<<'SQL'\n(.*?)^SQL$", page, flags=re.DOTALL | re.MULTILINE)
    (query,) = re.findall(r"-c '(.*?) = '\"'orders'\"$", page, flags=re.MULTILINE)
    connection = await asyncpg.connect(process.environment["DATABASE_URL"])
    await connection.execute(statements)
    async with connection.transaction():
        await outbox.push(connection, "orders", [{"data": {"id": 9}}], partition="customer-42")
    found: list[int] = []
    async with Queen(process.base_url) as queen:
        orders = queen.queue("orders").batch(10).wait(True).auto_ack(True)
        while len(found) < 2:
            found += [message.data["id"] for message in await orders.pop()]

    rows = await connection.fetch(f"{query} = 'orders' order by 2")
    await connection.close()
    assert found == [7, 9]
    assert [row["offset"] for row in rows] == [0, 1]
    first = rows[0]
    assert f" {first['partition']} |      {first['offset']} | {first['payload']}" in page


@pytest.mark.parametrize(
    ("steps", "complaint"),
    [
        ("```sh\necho one\n```\n```text\ntwo\n```\n", "the output is\none"),
        ("```sh\necho one; echo two\n```\n```text\none\n```\n", "the output is\none\ntwo"),
        ('```sh\necho \'{"a": 1}\'\n```\n```json\n{"a": 2}\n```\n', 'the output is\n{"a": 1}'),
        ("```sh\nfalse\n```\n", "page.md:1: false\nfailed"),
        ("```sh\nfalse\ntrue\n```\n", "failed"),
        ("```text\none\n```\n", "no command is before this output"),
        ("```python\nprint(1)\n```\n", "a reader cannot follow a python block"),
        ("```sh\necho 'a…b'\n```\n", "no running command has printed"),
    ],
)
def test_a_page_that_is_wrong_fails(steps: str, complaint: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(steps, "utf-8")
    with pytest.raises(AssertionError) as error:
        Tutorial(page, tmp_path, {}).follow()
    assert complaint in str(error.value)


def test_a_correct_page_passes(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        '```python title="one.py"\nprint("one 1")\n```\n'
        "```sh\npython one.py\nexport NAME=two\n```\n```text\none …\n```\n"
        '```sh\necho start; seq 9; echo "$NAME"\n```\n```text\nstart\n…\ntwo\n```\n'
        '```sh\necho \'{"a": 1, "b": [2], "c": 3}\'\n```\n```json\n{"b": ["…"], "…": "…"}\n```\n',
        "utf-8",
    )
    Tutorial(page, tmp_path, {}).follow()


def test_json_is_compared_by_its_content() -> None:
    assert is_like({"a": "…", "b": [1]}, {"b": [1], "a": {"c": 2}})
    assert not is_like({"a": 1}, {"a": 1, "b": 2})
    assert not is_like({"a": 1, "…": "…"}, {"a": 2, "b": 2})
    assert not is_like([1, "…"], [1])
