"""
Write the responses in src/queen/server/http/examples.json, which the OpenAPI document shows.

To add an example, insert its request where the requests before it have created its objects, without
a response, and run this. Only responses that are missing or have another shape are written. Then
read them: values of the machine that ran this do not belong into the document.

Usage::

    python -m tools.write_examples
"""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast

import msgspec
import uvloop

from queen.server.http import openapi_examples
from queen.server.http.openapi_examples import read_examples
from queen.store.migrations import migrate
from tests.support.examples import conversation, unlike
from tests.support.postgres import Postgres

FILE: Final = Path(openapi_examples.__file__).with_name("examples.json")
_MOST_ITEMS: Final = 8
_MOST_OBJECTS: Final = 5
_MOST_LINES: Final = 6


async def write() -> None:
    """Send all examples to a server, and store the responses that the file lacks."""
    examples = read_examples()
    with Postgres(in_memory=True) as postgres, TemporaryDirectory() as directory:
        dsn = postgres.create_database("examples")
        await migrate(dsn)
        async with conversation(dsn, Path(directory)) as talk:
            for at, example in enumerate(examples):
                if example.response is msgspec.UNSET:
                    await asyncio.sleep(1)  # Until background tasks have counted all requests.
                reply = await talk.send(example)
                if reply.status >= 300:
                    raise SystemExit(f"{example.operation}: {reply.status} {reply.body}")
                if example.response is msgspec.UNSET or unlike(example, reply) is not None:
                    response = _cut(talk.in_examples(reply.body))
                    example = examples[at] = msgspec.structs.replace(
                        example, status=reply.status, response=response
                    )
                    print(example.operation)
                talk.learn(example.response, reply.body)
    encoded = msgspec.json.format(msgspec.json.encode(examples), indent=2)
    FILE.write_bytes(encoded + b"\n")


def _cut(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return the beginning of long lists and texts."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {name: _cut(each) for name, each in members.items()}
    if isinstance(value, list):
        items = cast("list[Any]", value)
        most = _MOST_OBJECTS if items and isinstance(items[0], dict) else _MOST_ITEMS
        return [_cut(each) for each in items[:most]]
    if isinstance(value, str) and value.count("\n") > _MOST_LINES:
        return "".join(value.splitlines(keepends=True)[:_MOST_LINES])
    return round(value, 3) if isinstance(value, float) else value


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(write())
