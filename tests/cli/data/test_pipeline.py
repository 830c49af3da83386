"""Pipelines from the command line, as far as they don't need Spark: options, files, the list."""

from pathlib import Path
from uuid import uuid4

import pytest

from queen.store.store import Store
from tests.cli.commands import queen
from tests.cli.shell import Shell

NOWHERE = "postgresql://nobody@127.0.0.1:1/none"


async def begin(store: Store, name: str) -> None:
    place = ("lake.orders", None)
    await store.database.fetch("begin_pipeline", name, str(uuid4()), "archive", ["orders"], *place)


async def test_pipelines_are_listed_from_a_server_or_its_database(
    dsn: str, store: Store, shell: Shell
) -> None:
    await begin(store, "archive-orders")

    listed = await shell.run("pipeline", "ls", "-o", "json")
    direct = await shell.run("pipeline", "ls", "--dsn", dsn, "-o", "json")

    assert (listed.code, direct.code) == (0, 0), (listed, direct)
    assert listed.json == direct.json
    (row,) = listed.json
    assert (row["name"], row["kind"], row["queues"]) == ("archive-orders", "archive", ["orders"])
    table = (await shell.run("pipeline", "ls")).lines
    assert table[0].split()[:4] == ["name", "kind", "state", "stale"]
    assert table[1].split()[:6] == ["archive-orders", "archive", "running", "no", "-", "-"]


async def test_the_options_of_a_pipeline_are_listed() -> None:
    ended = await queen("pipeline", "options", "window", "-o", "json", dsn=NOWHERE)

    assert ended.code == 0, ended
    assert '"name": "watermark"' in ended.out
    assert "How late a message may arrive" in ended.out

    ended = await queen("pipeline", "options", "widow", dsn=NOWHERE)
    assert (ended.code, ended.out) == (2, "")
    assert "pipeline widow does not exist" in ended.err


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--set", "watermrk=1 minute"], 2, "no option watermrk; did you mean watermark?"),
        (["--set", "watermark"], 2, "write --set NAME=VALUE"),
        (["--set", "window={"], 2, "it is not JSON"),
        (["--set", "window=[]"], 2, "pipeline window: "),
        (["--config", "there-is-none.yaml"], 1, "there-is-none.yaml"),
        (["--conf", "spark"], 2, "write --conf NAME=VALUE"),
    ],
)
async def test_errors_are_reported_before_spark_starts(
    words: list[str], code: int, told: str
) -> None:
    ended = await queen("pipeline", "window", *words, dsn=NOWHERE)

    assert (ended.code, ended.out) == (code, ""), ended
    assert told in ended.err
    assert len(ended.err.splitlines()) == 1


@pytest.mark.parametrize("text", ["- a\n- b\n", "a: [\n", "\x00"])
async def test_a_file_without_options_is_rejected(tmp_path: Path, text: str) -> None:
    file = tmp_path / "w.yaml"
    file.write_text(text)

    ended = await queen("pipeline", "window", "--config", str(file), dsn=NOWHERE)

    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith(f"queen: {file}: ")
