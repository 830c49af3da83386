"""
A Chromium as users have it: with a profile on disk, and without Playwright.

For measurements. Playwright receives every request and frame, and polls from a script in each page.
On a small machine, that takes about as much CPU time as the page.
"""

import asyncio
import itertools
import json
import os
import re
import shutil
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, NamedTuple

from aiohttp import ClientSession, ClientWebSocketResponse

_MOST_SECONDS: Final = 60
_SEEN: Final = """\
globalThis.seen = new Promise((resolve) => {
  const look = () => {
    if (document.querySelector("[data-loading]")) return;
    if (!document.querySelector(%s)?.getClientRects().length) return;
    observer.disconnect();
    // Behind the frame that paints it.
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => resolve(performance.now());
    requestAnimationFrame(() => port2.postMessage(null));
  };
  const observer = new MutationObserver(look);
  observer.observe(document, { attributes: true, childList: true, subtree: true });
});
"""
_SPENT: Final = """\
new Promise((resolve) => {
  const look = (before) => {
    const all = performance.getEntriesByType("resource");
    if (all.length > before) setTimeout(look, 500, all.length);
    else resolve(all.flatMap((one) => one.serverTiming.map((each) => [each.duration, one.name])));
  };
  look(-1);
})
"""


class Visit(NamedTuple):
    """A visit to a page in a new tab."""

    seconds: float
    """From the first request until the content is painted."""
    spent: list[tuple[float, str]]
    """Milliseconds in the database, per request."""


class Bare:
    """Sends few DevTools commands, and subscribes to no events."""

    def __init__(self, socket: ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}

    async def listen(self) -> None:
        async for frame in self._socket:
            heard = json.loads(frame.data)
            if (answer := self._answers.pop(heard.get("id"), None)) is not None:
                answer.set_result(heard)
        for answer in self._answers.values():
            answer.set_exception(ConnectionError("chromium has ended"))

    async def ask(self, method: str, session: str | None = None, **parameters: object) -> Any:  # noqa: ANN401
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        asked = {"id": number, "method": method, "params": parameters}
        await self._socket.send_json(asked if session is None else {**asked, "sessionId": session})
        heard = await answer
        if "error" in heard:
            raise LookupError(f"{method}: {heard['error']['message']}")
        return heard["result"]

    async def _value(self, session: str, expression: str) -> Any:  # noqa: ANN401
        """The value of a promise in the page, which may still be loading."""
        while True:
            with suppress(LookupError):
                found = await self.ask(
                    "Runtime.evaluate",
                    session,
                    expression=expression,
                    awaitPromise=True,
                    returnByValue=True,
                )
                if "value" in found["result"]:
                    return found["result"]["value"]

    async def visit(self, url: str, ready: str, *, is_cached: bool = True) -> Visit:
        """
        Open a page, and wait until `ready` is painted. Then wait until it sends no more requests.
        """
        target = (await self.ask("Target.createTarget", url="about:blank"))["targetId"]
        attached = await self.ask("Target.attachToTarget", targetId=target, flatten=True)
        session = attached["sessionId"]
        if not is_cached:
            await self.ask("Network.enable", session)
            await self.ask("Network.setCacheDisabled", session, cacheDisabled=True)
        await self.ask("Page.enable", session)
        source = _SEEN % json.dumps(ready)
        await self.ask("Page.addScriptToEvaluateOnNewDocument", session, source=source)
        await self.ask("Page.navigate", session, url=url)
        async with asyncio.timeout(_MOST_SECONDS):
            millis = await self._value(session, "globalThis.seen")
            spent = await self._value(session, _SPENT)
        await self.ask("Target.closeTarget", targetId=target)
        return Visit(millis / 1000, [(each, name) for each, name in spent])


def chromium() -> str:
    """The path of Debian's Chromium, without the parts that draw a window."""
    path = shutil.which("chromium-headless-shell")
    assert path is not None, "chromium-headless-shell is missing: `make packages` installs it"
    return path


@asynccontextmanager
async def bare_browser(width: int) -> AsyncGenerator[Bare]:
    """Start Chromium with a window of this width."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            chromium(),
            "--remote-debugging-port=0",
            "--no-first-run",
            "--lang=en-US",
            f"--user-data-dir={profile}",
            f"--window-size={width},1000",
            *(["--no-sandbox"] if os.geteuid() == 0 else []),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr is not None
        told = ""
        while (found := re.search(r"DevTools listening on (\S+)", told)) is None:
            told = (await process.stderr.readline()).decode()
            assert told, "chromium did not start"
        drained = asyncio.create_task(process.stderr.read())
        async with ClientSession() as http, http.ws_connect(found[1], max_msg_size=0) as socket:
            bare = Bare(socket)
            listening = asyncio.create_task(bare.listen())
            try:
                yield bare
            finally:
                await bare.ask("Browser.close")
                await process.wait()
                await asyncio.gather(drained, listening)
