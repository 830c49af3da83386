"""
A new user without PostgreSQL: install the wheel, run `queen dev`, send a message, see it in the
dashboard.
"""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from playwright.async_api import async_playwright, expect

from tests.browser.bare import chromium

ROOT = Path(__file__).parents[3]
READY_SECONDS = 10
FIRST_MESSAGE_SECONDS = 60

SCRIPT = """
import asyncio, sys
from queen import Message, Queen

async def main() -> None:
    async with Queen(sys.argv[1]) as queen:
        orders = queen.queue("orders")
        await orders.push([{"data": {"total": 12}}])

        async def handle(message: Message) -> None:
            print("got", message.data)

        await orders.limit(1).consume(handle)

asyncio.run(main())
"""


def environment(**more: str) -> dict[str, str]:
    """The environment of a user's shell and pip, without variables of this checkout."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in ("HOME", "LANG", "TMPDIR") or name.startswith(("PIP_", "SSL_", "REQUESTS_"))
    }
    system = [each for each in os.environ["PATH"].split(":") if "postgresql" not in each]
    return {**kept, "PATH": ":".join(system), **more}


def run(*command: str | Path, cwd: Path) -> None:
    done = subprocess.run(
        [str(each) for each in command], cwd=cwd, env=environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def installed(folder: Path) -> Path:
    """A virtual environment with the built wheel and its extras."""
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    (wheel,) = folder.glob("queenmq-*.whl")
    run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    pip = folder / "venv" / "bin" / "pip"
    run(pip, "install", "--quiet", "--only-binary", ":all:", f"{wheel}[server]", cwd=folder)
    return folder / "venv" / "bin"


@asynccontextmanager
async def dev(programs: Path, folder: Path) -> AsyncGenerator[str]:
    """Run `queen dev`, and return the URL that it prints."""
    data = folder / "data"
    process = await asyncio.create_subprocess_exec(
        programs / "queen",
        *("dev", "--data-dir", str(data), "--port", "0"),
        cwd=folder,
        env=environment(),
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    said = ""
    try:
        async with asyncio.timeout(FIRST_MESSAGE_SECONDS):
            while (found := re.search(r"Dashboard +(\S+)\n", said)) is None:
                line = await process.stderr.readline()
                assert line, f"ended:\n{said}"
                said += line.decode()
        yield found[1]
    finally:
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(40):
            await process.communicate()


async def see_the_message(url: str) -> None:
    """Open the dashboard and find the message."""
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium(), args=arguments)
        try:
            page = await browser.new_page()
            await page.goto(f"{url}/messages?queue=orders")
            table = page.get_by_role("table", name="Messages")
            await expect(table.locator("tbody tr[aria-rowindex]")).to_have_count(1, timeout=20_000)
        finally:
            await browser.close()


async def check_openapi(url: str) -> None:
    """The wheel has the files that the OpenAPI document is built from."""
    document = f"{url.rstrip('/')}/api/v1/openapi.json"
    async with aiohttp.ClientSession() as browser, browser.get(document) as reply:
        shown = await reply.json()
    body = shown["paths"]["/api/v1/push"]["post"]["requestBody"]
    assert body["content"]["application/json"]["example"]
    assert shown["components"]["schemas"]["PushItem"]["properties"]["queue"]["description"]


@pytest.mark.nightly
@pytest.mark.timeout(300)
async def test_from_the_wheel_to_the_first_message_in_the_dashboard(folder: Path) -> None:
    programs = await asyncio.to_thread(installed, folder)
    begun = time.monotonic()
    async with dev(programs, folder) as url:
        ready = time.monotonic() - begun
        await check_openapi(url)
        async with aiohttp.ClientSession() as browser, browser.get(f"{url}/docs") as page:
            assert '<main id="reference">' in await page.text()
        script = folder / "first.py"
        script.write_text(SCRIPT)
        process = await asyncio.create_subprocess_exec(
            programs / "python", script, url, env=environment(), stdout=asyncio.subprocess.PIPE
        )
        async with asyncio.timeout(FIRST_MESSAGE_SECONDS):
            out, _ = await process.communicate()
        first_message = time.monotonic() - begun
        await see_the_message(url)
        seen = time.monotonic() - begun
    times = {"ready": ready, "first_message": first_message, "seen_in_dashboard": seen}
    print(json.dumps({f"{name}_seconds": round(each, 1) for name, each in times.items()}))
    assert out.decode() == "got {'total': 12}\n"
    assert ready < READY_SECONDS
    assert seen < FIRST_MESSAGE_SECONDS
