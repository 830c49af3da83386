"""What is on disk because the database was away: how much, and what to do with it."""

from typing import Final

import msgspec

from queen import errors
from queen.engine.buffer.file_buffer import FileBuffer, age_seconds
from queen.engine.engine import Engine
from queen.server.auth.permissions import Permission
from queen.server.http.call import Answer, Call
from queen.server.http.router import API, Route
from queen.settings import Settings
from queen.wire.resources import Buffer, BufferRetried, BufferRetryQuery


async def show(call: Call) -> Answer:
    """What this server has on disk."""
    buffer = shown(call.state.engine, call.state.settings)
    return Answer(buffer if call.caller.scopes is None else uncounted(buffer))


async def flush(call: Call) -> Answer:
    """Store what is on disk now, and answer what is left."""
    _required(call)
    replays = call.state.engine.replays
    assert replays is not None
    await replays.flush()
    return Answer(shown(call.state.engine, call.state.settings))


async def retry_failed(call: Call) -> Answer:
    """Try again what could not be stored, behind all that waits."""
    query = call.query(BufferRetryQuery)
    messages = await _required(call).retry_failed(is_doubted=not query.doubtful)
    return Answer(BufferRetried(messages=messages))


def _required(call: Call) -> FileBuffer:
    buffer = call.state.engine.buffer
    if buffer is None:
        raise errors.NotFound("this server has no file buffer: FILE_BUFFER_DIR is not set")
    return buffer


def shown(engine: Engine, settings: Settings) -> Buffer:
    """What is on disk, and whether the database answers."""
    folder = engine.buffer.folder if engine.buffer is not None else None
    return Buffer(
        enabled=folder is not None,
        buffering=engine.outages.is_buffering,
        db_healthy=not engine.store.database.is_away,
        messages=folder.messages if folder is not None else 0,
        bytes=folder.state.size_bytes if folder is not None else 0,
        max_bytes=settings.file_buffer_max_bytes,
        oldest_seconds=age_seconds(folder.oldest) if folder and folder.oldest else None,
        failed_files=len(folder.failed()) + len(folder.torn()) if folder is not None else 0,
    )


def uncounted(buffer: Buffer) -> Buffer:
    """What callers with scopes may know: not how many messages of others are on disk."""
    return msgspec.structs.replace(
        buffer, messages=None, bytes=None, oldest_seconds=None, failed_files=None
    )


ROUTES: Final = (
    Route(
        method="GET",
        path=f"{API}/status/buffers",
        handler=show,
        summary="Show what is on disk",
        # Not admin: what that does is audited in the database, and this is asked while it is away.
        permission=Permission.BROWSE,
        is_shared=True,
        answers={200: Buffer},
    ),
    Route(
        method="POST",
        path=f"{API}/system/buffer/flush",
        handler=flush,
        summary="Store what is on disk now",
        permission=Permission.ADMIN,
        answers={200: Buffer},
        problems=(errors.NotFound,),
    ),
    Route(
        method="POST",
        path=f"{API}/system/buffer/failed/retry",
        handler=retry_failed,
        summary="Try again what could not be stored",
        permission=Permission.ADMIN,
        query=BufferRetryQuery,
        answers={200: BufferRetried},
        problems=(errors.NotFound,),
    ),
)
