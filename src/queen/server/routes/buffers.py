"""The file buffer: show, flush, retry."""

from typing import Final

from queen import errors
from queen.engine.buffer.file_buffer import FileBuffer
from queen.server.auth.permissions import Permission
from queen.server.http.answer import Answer
from queen.server.http.call import API, Call, Route
from queen.server.routes.views import buffer_info, without_counts
from queen.wire.resources import Buffer, BufferRetried, BufferRetryQuery


async def show(call: Call) -> Answer:
    """Return the state of this server's file buffer."""
    buffer = buffer_info(call.state.engine, call.state.settings)
    return Answer(buffer if call.caller.scopes is None else without_counts(buffer))


async def flush(call: Call) -> Answer:
    """Store buffered pushes now, and return the remaining ones."""
    _required(call)
    replays = call.state.engine.replays
    assert replays is not None
    await replays.flush()
    return Answer(buffer_info(call.state.engine, call.state.settings))


async def retry_failed(call: Call) -> Answer:
    """Retry pushes that could not be stored, after all waiting ones."""
    query = call.query(BufferRetryQuery)
    messages = await _required(call).retry_failed(is_doubted=not query.doubtful)
    return Answer(BufferRetried(messages=messages))


def _required(call: Call) -> FileBuffer:
    buffer = call.state.engine.buffer
    if buffer is None:
        raise errors.NotFound("this server has no file buffer, because FILE_BUFFER_DIR is not set")
    return buffer


ROUTES: Final = (
    Route(
        method="GET",
        path=f"{API}/status/buffers",
        handler=show,
        summary="Show the file buffer",
        # Not admin, because such calls are audited in the database, which is unavailable then.
        permission=Permission.BROWSE,
        is_shared=True,
        answers={200: Buffer},
    ),
    Route(
        method="POST",
        path=f"{API}/system/buffer/flush",
        handler=flush,
        summary="Flush the file buffer",
        permission=Permission.ADMIN,
        answers={200: Buffer},
        problems=(errors.NotFound,),
    ),
    Route(
        method="POST",
        path=f"{API}/system/buffer/failed/retry",
        handler=retry_failed,
        summary="Retry failed buffered pushes",
        permission=Permission.ADMIN,
        query=BufferRetryQuery,
        answers={200: BufferRetried},
        problems=(errors.NotFound,),
    ),
)
