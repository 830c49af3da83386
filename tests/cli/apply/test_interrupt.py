"""After Ctrl-C, `queen apply` completes the requests that it sent, and reports the others."""

import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cli.apply.manifests import Manifests
from tests.support.server import Server

COUNT = 500


@pytest.fixture
async def server(dsn: str) -> AsyncIterator[Server]:
    async with Server(dsn) as server:
        yield server


@pytest.mark.timeout(300)
async def test_an_interrupt_loses_no_secret(
    server: Server, manifests: Manifests, tmp_path: Path
) -> None:
    file = tmp_path / "secrets.jsonl"
    keys = {f"k{number}": {"role": "read-only"} for number in range(COUNT)}
    manifests.write({"manager": "shop", "keys": keys})
    words = ("apply", "-f", str(manifests.file), "--secrets", str(file))

    async with manifests.shell.started(*words) as process:
        while not file.exists() or not file.read_text():
            assert process.returncode is None
            await server.get("/tokens", limit=1)
        process.send_signal(signal.SIGINT)
        _, error = await process.communicate()

    lines = error.decode().splitlines()
    assert process.returncode == 130, lines[-1]
    created = {each["id"] for each in (await server.get("/tokens", limit=1000)).body["tokens"]}
    stored = {json.loads(line)["id"] for line in file.read_text().splitlines()}
    assert 0 < len(created) < COUNT
    assert stored == created
    assert f"applied {len(created)} of {COUNT} changes" in lines[-1]
    assert sum(line.startswith("applied ") for line in lines) == len(created)
    assert sum(line.startswith("not attempted ") for line in lines) == COUNT - len(created)
