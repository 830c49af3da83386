"""A transport that can fail, to test how the SDK reacts."""

from collections.abc import Callable

from queen import errors
from queen.client.transport.base import Reply, Transport


class Faulty:
    """
    Forwards requests. ``lose_answers`` lets them reach the server and drops its responses.

    Usage::

        queen.transport = faulty = Faulty(queen.transport)
        faulty.lose_answers = 2
    """

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.is_down = False
        self.lose_answers = 0
        self.answers: list[Exception | bytes] = []
        """Errors or responses that replace the next requests, in order."""
        self.sent: list[tuple[str, str, bytes | None]] = []
        self.before: Callable[[str, str], None] = lambda method, path: None

    async def open(self) -> None:
        await self._inner.open()

    async def close(self) -> None:
        await self._inner.close()

    async def exchange(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        key: str | None = None,
        wait_seconds: float = 0,
        is_repeatable: bool = True,
        headers: dict[str, str] | None = None,
    ) -> Reply:
        self.before(method, path)
        self.sent.append((method, path, body))
        if self.answers:
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return Reply(200, answer)
        if self.is_down:
            raise errors.ServerUnreachable("no server is there")
        reply = await self._inner.exchange(
            method,
            path,
            body,
            key=key,
            wait_seconds=wait_seconds,
            is_repeatable=is_repeatable,
            headers=headers,
        )
        if self.lose_answers:
            self.lose_answers -= 1
            raise errors.ConnectionLost("the answer got lost")
        return reply
