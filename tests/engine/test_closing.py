"""An engine that fails to open or close leaves no connection and no buffer open."""

from pathlib import Path

import asyncpg
import pytest

from queen import errors
from queen.engine.buffer.directory import BufferFolder
from queen.engine.engine import Engine
from queen.settings import Settings
from tests.engine.helpers import until


async def until_disconnected(dsn: str, application: str) -> None:
    connection = await asyncpg.connect(dsn)

    async def is_gone() -> bool:
        return not await connection.fetchval(
            "select count(*) from pg_stat_activity where application_name = $1", application
        )

    try:
        await until(is_gone)
    finally:
        await connection.close()


@pytest.mark.parametrize(
    "part", ["outbox_mover", "schedules", "replayer", "message_waiters", "signals"]
)
async def test_a_part_that_fails_to_close_does_not_keep_others_open(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    settings = Settings(app_name="closing", file_buffer_dir=str(tmp_path))
    engine = await Engine.open(dsn, settings=settings)
    close = getattr(engine, part).close

    async def fail() -> None:
        await close()
        raise RuntimeError("a background task has failed")

    monkeypatch.setattr(getattr(engine, part), "close", fail)

    with pytest.raises(RuntimeError, match="has failed"):
        await engine.close()

    await until_disconnected(dsn, "closing")
    BufferFolder(tmp_path).close()
    with pytest.raises(errors.Draining):
        await engine.store.database.fetch("now")


async def test_an_engine_that_cannot_use_its_buffer_leaves_no_connection(
    dsn: str, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.touch()

    with pytest.raises(errors.BadSettings):
        await Engine.open(dsn, settings=Settings(app_name="opening", file_buffer_dir=str(file)))

    await until_disconnected(dsn, "opening")
