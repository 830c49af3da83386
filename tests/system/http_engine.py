"""The engine's verbs over HTTP, so that the fault tests can send their load through a server."""

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, Self

import aiohttp
import msgspec

from queen import errors
from queen.codec.ids import id_of
from queen.wire.messages import Acknowledged, Acknowledgment, Message, PopRequest, Pushed, PushItem


class Results(list[Pushed]):
    """The results of a push."""

    is_replayed = False


class HttpDelivery:
    """The messages of one lease, as a consumer receives them."""

    def __init__(self, messages: list[Message]) -> None:
        self._messages = messages
        first = messages[0]
        self.lease_id = first.lease_id
        self.until: datetime | None = first.lease_expires_at
        self.attempt = first.attempt
        self.partition_id = id_of(first.partition_id)

    @property
    def offsets(self) -> list[int]:
        return [each.offset for each in self._messages]

    def messages(self) -> Any:  # noqa: ANN401 - an iterator, as the engine's delivery has it
        return iter(self._messages)


class HttpEngine:
    """
    The verbs of the load, one request each. Rejections and lost responses raise the engine's
    errors.

    Usage::

        async with HttpEngine("http://127.0.0.1:6632") as engine:
            await engine.push([PushItem(queue="orders", payload=b"1")])
    """

    def __init__(self, url: str) -> None:
        self._url = f"{url}/api/v1"
        self._ids: dict[str, dict[int, str]] = {}
        """Message IDs by offset and lease, of popped messages until their lease is settled."""

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=20)
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def push(
        self,
        items: Sequence[PushItem],
        *,
        producer_id: str | None = None,
        sequence: int | None = None,
    ) -> Results:
        body: dict[str, Any] = {
            "items": [
                {
                    "queue": each.queue,
                    "partition": each.partition,
                    "payload": msgspec.Raw(bytes(each.payload)),
                    "transactionId": each.transaction_id,
                }
                for each in items
            ]
        }
        if producer_id is not None:
            body |= {"producerId": producer_id, "sequence": sequence}
        answer = await self._post("/push", body)
        results = Results(msgspec.convert(each, Pushed) for each in answer["messages"])
        results.is_replayed = answer.get("replayed", False)
        return results

    async def pop(self, request: PopRequest) -> list[HttpDelivery]:
        body = {
            "consumerGroup": request.consumer_group,
            "batch": request.batch,
            "partitions": request.partitions,
            "wait": request.wait,
            "timeout": int(request.timeout_seconds * 1000),
            "leaseSeconds": request.lease_seconds,
        }
        answer = await self._post(f"/pop/queue/{request.queue}", body)
        if not answer:
            return []
        messages = [msgspec.convert(each, Message) for each in answer["messages"]]
        found: list[HttpDelivery] = []
        for lease_id, of_lease in groupby(messages, lambda each: each.lease_id or ""):
            delivery = HttpDelivery(list(of_lease))
            self._ids[lease_id] = {each.offset: each.id for each in delivery.messages()}
            found.append(delivery)
        return found

    async def ack(self, lease_id: str, offsets: Sequence[int] | None = None) -> int:
        ids = self._ids[lease_id]
        wanted = list(ids) if offsets is None else list(offsets)
        acks = [{"id": ids[offset], "leaseId": lease_id} for offset in wanted]
        answer = await self._post("/ack/batch", {"acknowledgments": acks})
        for each in answer["results"]:
            if each["code"] is not None:
                raise (errors.of_code(each["code"]) or errors.QueenError)(each["error"])
        return len(wanted)

    async def acknowledge(self, acknowledgments: Sequence[Acknowledgment]) -> list[Acknowledged]:
        (each,) = acknowledgments
        body = {"id": each.id, "leaseId": each.lease_id, "status": each.status, "error": each.error}
        try:
            await self._post("/ack", body)
        except errors.RequestError as error:
            return [
                Acknowledged(transaction_id=None, success=False, code=error.code, error=str(error))
            ]
        return [Acknowledged(transaction_id=None, success=True)]

    async def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Send a request, and raise the error of the server, or `OutcomeUnknown`."""
        headers = {"content-type": "application/json"}
        data = msgspec.json.encode(body)
        try:
            async with self._session.post(self._url + path, data=data, headers=headers) as reply:
                raw = await reply.read()
        except aiohttp.ClientConnectorError as error:
            raise errors.DatabaseUnavailable(f"nobody listens: {error}") from error
        except (aiohttp.ClientError, TimeoutError) as error:
            raise errors.OutcomeUnknown(str(error)) from error
        answer: dict[str, Any] = _decode(raw) if raw else {}
        if reply.status >= 400:
            kind = errors.of_code(answer["code"]) or errors.QueenError
            # The response must agree with the class.
            assert kind.applied is answer["applied"], answer
            raise kind(answer["detail"])
        return answer


def _decode(raw: bytes) -> dict[str, Any]:
    """Decode JSON, but keep the data of messages as the received bytes."""
    if b'"data":' not in raw:
        return msgspec.json.decode(raw)
    popped = msgspec.json.decode(raw, type=dict[str, list[dict[str, msgspec.Raw]]])
    return {
        "messages": [
            {
                name: value if name == "data" else msgspec.json.decode(value)
                for name, value in message.items()
            }
            for message in popped["messages"]
        ]
    }
