"""The file buffer: its size, flush, and retry."""

from typing import Final

from queen import errors
from queen.engine.buffer.file_buffer import FileBuffer
from queen.server.auth.permissions import Permission
from queen.server.http.answer import Answer
from queen.server.http.call import API, Call, Route
from queen.server.routes.views import buffer_info, without_counts
from queen.wire.resources import Buffer, BufferRetried, BufferRetryQuery


async def show(call: Call) -> Answer:
    """What this server has on disk."""
    buffer = buffer_info(call.state.engine, call.state.settings)
    return Answer(buffer if call.caller.scopes is None else without_counts(buffer))


async def flush(call: Call) -> Answer:
    """Store what is on disk now, and answer what is left."""
    _required(call)
    replays = call.state.engine.replays
    assert replays is not None
    await replays.flush()
    return Answer(buffer_info(call.state.engine, call.state.settings))


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
