"""One stream: its operations, its subscriptions, and the frames that carry their results."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from queen import errors
from queen.server.auth.revocations import REASON
from queen.server.decoding.bodies import DIRECT_BYTES
from queen.server.http.answer import Answer
from queen.server.http.body import parse_body
from queen.server.http.call import Call
from queen.server.http.head import Connection, Head
from queen.server.http.problems import problem
from queen.server.http.scope_keys import ClientGone, Disconnect
from queen.server.memory_budget import Share
from queen.server.routes.messaging.pop import AnyPopQuery
from queen.server.stream.observer import StreamObserver
from queen.server.stream.operations import (
    CONSUME,
    POP,
    BadFrame,
    ConsumeRequest,
    Verb,
    read_frame,
    read_large_frame,
    verb_of,
)
from queen.server.stream.socket import INTERNAL_ERROR, POLICY, RESTART, TRY_LATER, FrameSocket
from queen.server.stream.subscription import Subscription
from queen.wire.stream import MAX_OPERATIONS, MAX_WAITING, Operation

_ENCODE: Final = msgspec.json.Encoder().encode
_CANCELLED: Final = b'{"messages":[],"reason":"cancelled"}'
_NOTHING: Final = b'{"messages":[]}'
_JOINED_BYTES: Final = 2**16
_DRAINING: Final = "this process is shutting down"
Undo = Callable[[], Any]


class StreamConnection(FrameSocket):
    """The stream of one client."""

    def __init__(self, call: Call, observer: StreamObserver, on_end: Callable[[], None]) -> None:
        state = call.state
        super().__init__(state.settings, state.unsent, Share(state.requests), on_end)
        self._observer = observer
        self._state = state
        self._call = _call_of(call)
        self._tasks: dict[int, asyncio.Task[None]] = {}
        """Operations in progress by id, except subscriptions."""
        self._waits: dict[int, Disconnect] = {}
        """Pops that a client can cancel."""
        self._subscriptions: dict[int, Subscription] = {}
        self._subscribed: dict[asyncio.Task[Answer | None], tuple[Subscription, Disconnect]] = {}
        """Pops of subscriptions."""
        self._unflushed: list[Undo] = []
        self._unread: list[Undo] = []
        """Undo functions of deliveries that were not sent, or that the client has not read."""
        self._undoing: set[asyncio.Task[None]] = set()
        self._out: list[bytes] = []
        self._large: list[bytes] = []
        """Frames that wait while a large one is decoded."""
        self._reading: asyncio.Task[None] | None = None
        self._is_full = False
        """Whether the client has to wait until half of its operations have ended."""
        self.is_draining = False
        state.authenticator.revocations.add(call.caller, self._revoke)

    # Receiving.

    @property
    def may_read(self) -> bool:
        return not (self.is_write_paused or self._reading or self._is_full)

    def received(self, message: bytes) -> None:
        self._observer.metrics.received += 1
        if self._reading is not None or len(message) > DIRECT_BYTES:
            self._large.append(message)
            if self._reading is None:
                self._reading = asyncio.create_task(self._read_large())
                self.update_reading()
            return
        try:
            self._start(read_frame(message), len(message))
        except BadFrame as error:
            self._close_bad(error)

    async def _read_large(self) -> None:
        share = Share(self._state.requests)
        try:
            while self._large:
                message = self._large.pop(0)
                try:
                    share.take(len(message))
                    operations = await read_large_frame(message, self._state.bodies)
                except errors.TooManyBytes as error:
                    self.close(TRY_LATER, str(error))
                    return
                share.give_back()
                self._start(operations, len(message))
        except BadFrame as error:
            self._close_bad(error)
        except Exception as error:
            self._observer.rejected(error, self._call)
            self.close(INTERNAL_ERROR, "an unexpected error occurred")
        finally:
            share.give_back()
            self._reading = None
            self.update_reading()

    def _close_bad(self, error: BadFrame) -> None:
        self.close(POLICY, str(error))
        self._end_waiting()

    def _start(self, operations: Sequence[Operation], size: int) -> None:
        """Start the operations of a frame. Each counts its share of the frame's memory."""
        size = size // len(operations) if operations else 0
        # Check all of them first, because a bad operation rejects its whole frame.
        for operation, found in [(each, verb_of(each)) for each in operations]:
            if found is None:
                self._control(operation)
                continue
            id_ = operation.id
            if id_ is None:
                raise BadFrame(f"{found[0].name} needs an id")
            if id_ in self._tasks or id_ in self._subscriptions:
                raise BadFrame(f"id {id_} is in use")
            verb, body = found
            if verb is POP and len(self._waits) + len(self._subscribed) < MAX_WAITING:
                self._waits[id_] = Disconnect()  # Now: a later operation may cancel it.
            elif verb is CONSUME and len(self._subscriptions) < MAX_WAITING:
                self._subscriptions[id_] = Subscription(self, id_)
            task = asyncio.create_task(self._run(id_, verb, body, size, operation.traceparent))
            self._tasks[id_] = task
        if self._working >= MAX_OPERATIONS:
            self._is_full = True
            self.update_reading()

    @property
    def _working(self) -> int:
        """The number of operations in progress, without waiting pops."""
        return len(self._tasks) - len(self._waits)

    def _control(self, operation: Operation) -> None:
        if operation.credit is not msgspec.UNSET:
            subscription = self._subscriptions.get(operation.credit.id)
            if subscription is not None and not subscription.is_ending:
                subscription.grant(operation.credit.messages)
        elif operation.cancel is not msgspec.UNSET:
            self._cancel(operation.cancel)
        else:
            raise BadFrame("an operation needs a verb")

    def _cancel(self, id_: int) -> None:
        """End a pop or a subscription. An unknown id has already ended."""
        if (wait := self._waits.get(id_)) is not None:
            wait.notify()
        elif (subscription := self._subscriptions.get(id_)) is not None:
            self._end_pops(subscription)
            subscription.end()

    # Operations.

    async def _run(
        self, id_: int, verb: Verb, body: msgspec.Raw, size: int, traceparent: str | None
    ) -> None:
        began = time.perf_counter()
        share = Share(self._state.requests)
        status = 200
        try:
            share.take(size)
            result = await self._result(id_, verb, body, share, traceparent)
            if result is not None:
                self._put(b'{"id":%d,"result":%b}' % (id_, result))
        except ClientGone as gone:
            self._put(b'{"id":%d,"result":%b}' % (id_, gone.response or _CANCELLED))
        except Exception as error:
            self._subscriptions.pop(id_, None)
            status = self._fail(id_, error)
        finally:
            share.give_back()
            self._waits.pop(id_, None)
            self._tasks.pop(id_, None)
            self._observer.metrics.count(verb.name, status, time.perf_counter() - began)
            if self._is_full and self._working <= MAX_OPERATIONS // 2:
                self._is_full = False
                self.update_reading()
            if self.is_draining:
                self.close_if_idle()

    async def _result(
        self, id_: int, verb: Verb, body: msgspec.Raw, share: Share, traceparent: str | None
    ) -> bytes | None:
        """Run an operation; None if it began a subscription."""
        await self._admit()
        request = await parse_body(bytes(body), verb.type, self._state.bodies, share)
        if verb is CONSUME:
            subscription = self._subscriptions.get(id_)
            if subscription is None:
                raise errors.TooManyWaiters(f"this stream has {MAX_WAITING} subscriptions")
            subscription.begin(request)
            return None
        if verb is POP:
            return await self._pop(id_, request, traceparent)
        if traceparent is None and not self._observer.is_tracing:
            answer = await verb.run(self._call, request)
        else:
            call = _call_of(self._call, traceparent)
            call.route = verb.route
            with self._observer.span(call):
                answer = await verb.run(call, request)
        assert answer.body is not None
        return answer.body

    async def _admit(self) -> None:
        """Raise unless the caller may still send requests."""
        if self._state.is_draining:
            raise errors.Draining(_DRAINING)
        authenticator, caller = self._state.authenticator, self._call.caller
        if authenticator.is_open:
            return
        current = await authenticator.current(caller)
        if current is None:
            self._revoke()
            raise errors.Unauthorized(REASON)
        if current.requests_per_second is not None:
            await authenticator.spend(current)

    async def _pop(self, id_: int, request: AnyPopQuery, traceparent: str | None) -> bytes | None:
        wait = self._waits.get(id_)
        if wait is None:
            raise errors.TooManyWaiters(f"this stream has {MAX_WAITING} pops in progress")
        call = _call_of(self._call, traceparent, wait)
        call.route = POP.route
        with self._observer.span(call):
            answer = await POP.run(call, request)
        self._track(answer)
        body = _NOTHING if answer.body is None else answer.body
        reason = (answer.headers or {}).get("Queen-Reason")
        return body if reason is None else b'%b,"reason":"%b"}' % (body[:-1], reason.encode())

    def _track(self, answer: Answer) -> None:
        """Give the deliveries back if the client does not receive them."""
        if answer.undo is None:
            return
        if self.is_closed:
            self._undo(answer.undo)
        else:
            self._unflushed.append(answer.undo)

    def _undo(self, undo: Undo) -> None:
        task = asyncio.ensure_future(undo())
        self._undoing.add(task)
        task.add_done_callback(self._undoing.discard)

    # Subscriptions.

    @property
    def has_room(self) -> bool:
        return (
            not (self.is_write_paused or self.is_closed or self.is_draining)
            and len(self._waits) + len(self._subscribed) < MAX_WAITING
        )

    def start_pop(
        self, subscription: Subscription, request: ConsumeRequest
    ) -> "asyncio.Task[Answer | None]":
        wait = Disconnect()
        task = asyncio.create_task(self._take(request, wait))
        self._subscribed[task] = subscription, wait
        task.add_done_callback(self._pop_ended)
        return task

    def _pop_ended(self, task: "asyncio.Task[Answer | None]") -> None:
        was_full = len(self._waits) + len(self._subscribed) >= MAX_WAITING
        del self._subscribed[task]
        if was_full:
            self._fill()  # Subscriptions that had no room may start a pop.

    async def _take(self, request: AnyPopQuery, wait: Disconnect) -> Answer | None:
        call = _call_of(self._call, None, wait)
        call.route = POP.route
        try:
            with self._observer.span(call):
                return await POP.run(call, request)
        except ClientGone:
            return None

    def deliver(self, subscription: Subscription, answer: Answer, body: bytes) -> None:
        id_ = subscription.id
        if self.is_closed or self._subscriptions.get(id_) is not subscription:
            if answer.undo is not None:
                self._undo(answer.undo)
            return
        self._track(answer)
        self._put(b'{"id":%d,%b' % (id_, body))

    def fail(self, subscription: Subscription, error: BaseException) -> None:
        if self._remove(subscription):
            self._end_pops(subscription)
            self._fail(subscription.id, error)
        if self.is_draining:
            self.close_if_idle()

    def finish(self, subscription: Subscription) -> None:
        if self._remove(subscription):
            self._put(b'{"id":%d,"result":{}}' % subscription.id)
        if self.is_draining:
            self.close_if_idle()

    def _remove(self, subscription: Subscription) -> bool:
        """Remove a subscription unless it has ended. Its id may be in use again."""
        if self._subscriptions.get(subscription.id) is not subscription:
            return False
        del self._subscriptions[subscription.id]
        return True

    def _end_pops(self, subscription: Subscription | None) -> None:
        """End the waiting pops of a subscription, or of all."""
        for owner, wait in list(self._subscribed.values()):
            if subscription is None or owner is subscription:
                wait.notify()

    # Sending.

    def _put(self, text: bytes) -> None:
        """Send a result, in one frame with the others of this loop iteration."""
        if self.is_closed:
            return
        self._out.append(text)
        if len(self._out) == 1:
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        out, self._out = self._out, []
        unsent, self._unflushed = self._unflushed, []
        if not self.is_closed and out:
            self._send(out)
        # If a write fails immediately, the transport closes, and connection_lost is called later.
        if self.is_closed or self.is_lost:
            for undo in unsent:
                self._undo(undo)
        elif self.is_write_paused:
            self._unread += unsent

    def _send(self, out: list[bytes]) -> None:
        self._observer.metrics.sent += 1
        if len(out) == 1:
            self.send(out[0])
        elif sum(map(len, out)) <= _JOINED_BYTES:
            self.send(b"[%b]" % b",".join(out))
        else:
            self._observer.metrics.sent += len(out) - 1
            for each in out:
                self.send(each)

    def writable(self) -> None:
        self._unread.clear()
        self._fill()

    def _fill(self) -> None:
        for subscription in list(self._subscriptions.values()):
            subscription.fill()

    def _fail(self, id_: int, error: BaseException) -> int:
        """Send a problem, and return its status."""
        shown = self._observer.rejected(error, self._call)
        document = _ENCODE(problem(shown, self._call.request_id))
        after = b""
        if isinstance(shown, errors.ServiceError | errors.OutcomeUnknown):
            after = b',"retryAfter":%d' % shown.members.get("retry_after", 1)
        self._put(b'{"id":%d%b,"problem":%b}' % (id_, after, document))
        return shown.http_status

    # The end.

    def drain(self) -> None:
        """Accept no more operations, and close when those in progress have ended."""
        self.is_draining = True
        self._end_waiting()
        self.close_if_idle()

    def close_if_idle(self) -> None:
        """Close a draining stream without operations."""
        if not (self._tasks or self._subscribed or self._reading):
            self._flush()
            self.close(RESTART, _DRAINING)

    def _end_waiting(self) -> None:
        for wait in list(self._waits.values()):
            wait.notify()
        self._end_pops(None)
        for subscription in list(self._subscriptions.values()):
            subscription.end()

    def _revoke(self) -> None:
        self._flush()
        self.close(POLICY, REASON)
        self._end_waiting()

    def ended(self, *, is_cut: bool) -> None:
        self._state.authenticator.revocations.remove(self._call.caller, self._revoke)
        self._subscriptions.clear()
        self._end_waiting()
        self._flush()
        unread, self._unread = self._unread, []
        if is_cut:
            for undo in unread:
                self._undo(undo)


def _call_of(call: Call, traceparent: str | None = None, wait: Disconnect | None = None) -> Call:
    """Return a call of the same caller, without its headers, for one operation."""
    head = call.head
    if traceparent is not None or head.headers:
        headers: list[tuple[bytes, bytes]] = []
        if traceparent is not None:
            headers.append((b"traceparent", traceparent.encode("latin-1", "replace")))
        head = Head(
            {
                "scheme": head.scheme,
                "method": head.method,
                "path": head.path,
                "raw_path": head.raw_path,
                "query_string": b"",
                "headers": headers,
            }
        )
    new = Call(head, call.state, Connection(call.connection.client, wait), None)
    new.caller = call.caller
    new.request_id = call.request_id
    return new
