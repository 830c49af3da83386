"""Every file in examples/ runs without errors."""

import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest

from tests.support.server import SOURCE, Server, until

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(
    str(path.relative_to(EXAMPLES))
    for pattern in ("*.py", "jobs/*.py")
    for path in EXAMPLES.glob(pattern)
    if path.name != "fastapi_app.py"
)


def environment(server: Server) -> dict[str, str]:
    return {"PYTHONPATH": f"{SOURCE}:{EXAMPLES}", "QUEEN_BASE_URL": server.base_url}


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_example_runs(process: Server, name: str) -> None:
    answer = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / name],
        env=environment(process),
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.strip()


SERVE = """
import socket, fastapi_app, uvicorn

listener = socket.socket()
listener.bind(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
config = uvicorn.Config(fastapi_app.app, log_level="error")
uvicorn.Server(config).run(sockets=[listener])
"""


async def test_the_web_application_pushes_and_handles(process: Server) -> None:
    app = subprocess.Popen(  # noqa: ASYNC220 - forks and returns
        [sys.executable, "-c", SERVE], env=environment(process), stdout=subprocess.PIPE, text=True
    )
    try:
        assert app.stdout is not None
        url = f"http://127.0.0.1:{int(app.stdout.readline())}"
        async with aiohttp.ClientSession() as session:

            async def is_up() -> bool:
                try:
                    async with session.get(f"{url}/billed") as answer:
                        return await answer.json() == []
                except aiohttp.ClientConnectionError:
                    return False

            async def is_billed() -> bool:
                async with session.get(f"{url}/billed") as answer:
                    return await answer.json() == [7]

            await until(is_up, seconds=30)
            async with session.post(f"{url}/orders/7?total=12") as answer:
                assert await answer.json() == "queued"
            await until(is_billed)
    finally:
        app.kill()
        app.communicate()
