"""
Follows a tutorial from the top, as a reader does, and compares the output that it shows.

| fence | meaning |
|---|---|
| ```` ```python title="push.py" ```` | a file of any kind; the reader saves it under this name |
| ```` ```sh ```` | commands; the reader runs them one after the other |
| ```` ```sql ```` | statements; the reader runs them with `psql "$DATABASE_URL"` |
| ```` ```py ```` | code of another system or of the reader; it is not run |
| ```` ```text ```` or ```` ```json ```` | the whole output of the commands before it |
| ```` ```text title="queen worker" ```` | output of a command that still runs |

`…` stands for text that varies: within a line, as a line of its own for any number of lines, and in
JSON for any value, or with `"…": "…"` for more fields. In a command, it stands for text that a
running command has printed.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from tests.support.ports import free_port
from tests.support.prefork import SOURCE

ADDRESS = "localhost:6632"
VARYING = "…"
SERVICES = {
    "queen dev": r"http://localhost:\d+",
    "queen serve": r"worker\.started",
    "queen worker": r"concurrent jobs per queue",
    "python worker.py": "",
}
"""Commands that run until Ctrl-C, by their beginning, and the output that shows they are ready."""
START_SECONDS = 100
STOP_SECONDS = 40
_FENCE = re.compile(
    r'^```(?P<kind>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<body>.*?)^```$',
    flags=re.DOTALL | re.MULTILINE,
)


class Fence(NamedTuple):
    """A block of code on a page."""

    kind: str
    title: str | None
    body: str
    line: int


def fences(text: str) -> Iterator[Fence]:
    """All blocks of a page, in order."""
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield Fence(found["kind"], found["title"], found["body"], line)


def pattern(shown: str) -> str:
    """A regular expression for the shown output."""
    lines = (
        r"(?:.*\n)*?"
        if line.strip() == VARYING
        else ".*?".join(map(re.escape, line.rstrip().split(VARYING))) + r"[ \t]*\n"
        for line in shown.splitlines()
    )
    return "".join(lines)


def is_like(shown: Any, actual: Any) -> bool:  # noqa: ANN401 - JSON
    """Compare two JSON documents; `…` in the first one stands for any value."""
    if shown == VARYING:
        return True
    if isinstance(shown, dict) and isinstance(actual, dict):
        ours, theirs = cast("dict[str, Any]", shown), cast("dict[str, Any]", actual)
        named = ours.keys() - {VARYING}
        if not (named == theirs.keys() or (VARYING in ours and named < theirs.keys())):
            return False
        return all(is_like(ours[name], theirs[name]) for name in named)
    if isinstance(shown, list) and isinstance(actual, list):
        pairs = cast("list[Any]", shown), cast("list[Any]", actual)
        return len(pairs[0]) == len(pairs[1]) and all(map(is_like, *pairs))
    return bool(shown == actual)


class Service:
    """A command that runs until Ctrl-C."""

    def __init__(self, command: str, environment: Mapping[str, str]) -> None:
        self.command = command
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `stop`
        self._process = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=environment["PWD"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    @property
    def output(self) -> str:
        # Not by `seek`, because the process writes at the same position of the file.
        file = self._output.fileno()
        return os.pread(file, os.fstat(file).st_size, 0).decode()

    def wait_for(self, expected: str) -> None:
        """Wait until the output matches, for a bounded time."""
        deadline = time.monotonic() + START_SECONDS
        while not re.search(expected, self.output):
            is_over = self._process.poll() is not None or time.monotonic() > deadline
            assert not is_over, f"{self.command} did not print {expected}:\n{self.output}"
            time.sleep(0.05)

    def stop(self) -> int:
        """Press Ctrl-C, and return the exit code."""
        try:
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGINT)
            return self._process.wait(STOP_SECONDS)
        finally:
            _kill(self._process)
            self._output.close()


def _output_of(script: str, environment: Mapping[str, str]) -> tuple[int, str]:
    """Run a script in its directory, and return its exit code and output."""
    process = subprocess.Popen(
        ["bash", "-c", script],
        cwd=environment["PWD"],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate()
        return process.returncode, output
    finally:
        _kill(process)


def _kill(process: subprocess.Popen[Any]) -> None:
    """End a process and its children, if it still runs."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class Tutorial:
    """
    One page, followed in an empty directory.

    ``left_out``: commands that cannot run here, by their beginning, with the reason.

    Usage::

        tutorial = Tutorial(page, tmp_path, left_out={"pip install": "needs a package index"})
        tutorial.follow()
    """

    def __init__(self, page: Path, directory: Path, left_out: Mapping[str, str]) -> None:
        self.page = page
        self.skipped: list[str] = []
        """Commands that were left out."""
        self._directory = directory
        self._left_out = left_out
        self._address = f"localhost:{free_port()}"
        self._services: list[Service] = []
        port = self._address.partition(":")[2]
        self.environment = {
            # The `queen` and `python` of this environment.
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(SOURCE),
            "HOME": str(directory),
            "PWD": str(directory),
            "LANG": "C.UTF-8",
            "COLUMNS": "80",
            # Standard output of a terminal is not buffered either.
            "PYTHONUNBUFFERED": "1",
            "PORT": port,
            "QUEEN_BASE_URL": f"http://{self._address}",
        }
        # In a terminal, curl prints no progress.
        (directory / ".curlrc").write_text("silent\nshow-error\n")

    def follow(self, *, until: str | None = None, **environment: str) -> None:
        """
        Follow the page to its end, or to the block with the command ``until``. Then press Ctrl-C
        in every terminal.
        """
        self.environment |= environment
        text = self.page.read_text("utf-8").replace(ADDRESS, self._address)
        try:
            output = None
            for fence in fences(text):
                output = self._do(fence, output)
                if until is not None and fence.kind == "sh" and until in fence.body:
                    break
            codes = {each.command: each.stop() for each in reversed(self._services)}
            self._services.clear()
            assert set(codes.values()) <= {0}, codes
        finally:
            for each in self._services:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    each.stop()

    def _do(self, fence: Fence, output: str | None) -> str | None:
        """Take one step. Returns the output of its commands."""
        where = f"{self.page}:{fence.line}"
        if fence.kind in ("python", "yaml") and fence.title is not None:
            Path(self.environment["PWD"], fence.title).write_text(fence.body, "utf-8")
        elif fence.kind == "sh":
            return self._run(fence.body, where)
        elif fence.kind == "sql":
            return self._query(fence.body, where)
        elif fence.kind == "py":
            return output
        elif fence.kind in ("text", "json") and fence.title is not None:
            self._service(fence.title).wait_for(rf"(?m)^{pattern(fence.body)}")
        elif fence.kind in ("text", "json"):
            assert output is not None, f"{where}: no command is before this output"
            self._compare(fence, output, where)
        else:
            raise AssertionError(f"{where}: a reader cannot follow a {fence.kind} block")
        return None

    def _query(self, statements: str, where: str) -> str | None:
        if self._is_left_out(statements):
            return None
        quiet = "psql --no-psqlrc --set ON_ERROR_STOP=1"
        return self._run(f"{quiet} \"$DATABASE_URL\" <<'SQL'\n{statements}SQL", where)

    def _run(self, commands: str, where: str) -> str | None:
        whole = re.sub(r"\\\n\s*", "", commands)  # A command can continue on the next line.
        kept = [line for line in whole.splitlines() if not self._is_left_out(line)]
        script = "\n".join(kept).strip()
        if not script:
            return None
        if any(script.startswith(each) for each in SERVICES):
            self._start(script)
            return None
        if VARYING in script:
            script = self._completed(script, where)
        kept_environment = self._directory / ".environment"
        code, output = _output_of(
            f"set -eu -o pipefail\n{script}\nenv -0 >{kept_environment}", self.environment
        )
        assert code == 0, f"{where}: {script}\nfailed:\n{output}"
        exported = kept_environment.read_text("utf-8").split("\0")
        self.environment |= dict(each.split("=", 1) for each in exported if each)
        return output

    def _start(self, command: str) -> None:
        (ready,) = (each for name, each in SERVICES.items() if command.startswith(name))
        service = Service(command, self.environment)
        self._services.append(service)
        service.wait_for(ready)

    def _service(self, title: str) -> Service:
        return next(each for each in self._services if each.command.startswith(title))

    def _is_left_out(self, line: str) -> bool:
        is_left_out = any(line.startswith(each) for each in self._left_out)
        if is_left_out:
            self.skipped.append(line.strip())
        return is_left_out

    def _completed(self, script: str, where: str) -> str:
        """Replace the line with `…` by the lines that a running command has printed."""
        (line,) = (each for each in script.splitlines() if VARYING in each)
        expected = ".*?".join(map(re.escape, line.split(VARYING))) + r"(?=\n)"
        for service in self._services:
            if found := re.search(expected, service.output, flags=re.DOTALL):
                return script.replace(line, found[0])
        raise AssertionError(f"{where}: no running command has printed {line}")

    def _compare(self, fence: Fence, output: str, where: str) -> None:
        if fence.kind == "json":
            is_same = is_like(json.loads(fence.body), json.loads(output))
        else:
            is_same = re.fullmatch(pattern(fence.body), output.rstrip() + "\n") is not None
        assert is_same, f"{where}: the page shows\n{fence.body}\nbut the output is\n{output}"
