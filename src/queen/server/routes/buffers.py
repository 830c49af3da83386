"""The file buffer: show, flush, retry."""

from queen import errors
from queen.engine.buffer.file_buffer import FileBuffer
from queen.server.auth.permissions import Permission
from queen.server.databases.merges import of_buffers, summed
from queen.server.http.answer import Answer
from queen.server.http.call import Call, Summed, new_routes
from queen.server.routes.views import buffer_info, without_counts
from queen.wire.resources import Buffer, BufferRetried, BufferRetryQuery

ROUTES, route = new_routes()


@route(
    "GET /api/v1/status/buffers",
    "Show the file buffer",
    # Not admin, because such calls are audited in the database, which is unavailable then.
    Permission.BROWSE,
    {200: Buffer},
    is_shared=True,
    everywhere=Summed(of_buffers),
)
async def show(call: Call) -> Answer:
    """Return the state of this server's file buffer."""
    buffer = buffer_info(call.state.engine, call.state.settings)
    return Answer(buffer if call.caller.scopes is None else without_counts(buffer))


@route(
    "POST /api/v1/system/buffer/flush",
    "Flush the file buffer",
    Permission.ADMIN,
    {200: Buffer},
    problems=(errors.NotFound,),
    everywhere=Summed(of_buffers),
)
async def flush(call: Call) -> Answer:
    """Store buffered pushes now, and return the remaining ones."""
    _required(call)
    replayer = call.state.engine.replayer
    assert replayer is not None
    await replayer.flush()
    return Answer(buffer_info(call.state.engine, call.state.settings))


@route(
    "POST /api/v1/system/buffer/failed/retry",
    "Retry failed buffered pushes",
    Permission.ADMIN,
    {200: BufferRetried},
    query=BufferRetryQuery,
    problems=(errors.NotFound,),
    everywhere=Summed(summed),
)
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
