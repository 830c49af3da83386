"""A real terminal of 80 columns for one command, with tmux."""

import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self
from uuid import uuid4

WIDTH, HEIGHT = 80, 24


class Terminal:
    """
    Usage::

        with Terminal("top", environment=shell.environment) as terminal:
            terminal.until(lambda screen: "orders" in screen)
            terminal.press("q")
    """

    def __init__(self, *arguments: str, environment: Mapping[str, str]) -> None:
        self._socket = f"queen-test-{uuid4().hex}"
        # The shell continues after the command, so that its last output can be read.
        words = shlex.join([sys.executable, "-m", "queen", *arguments])
        self._command = f"{words}; echo ended with $?; exec sleep 60"
        self._environment = {**environment, "TERM": "screen-256color", "LANG": "C.UTF-8"}

    def __enter__(self) -> Self:
        size = ("-x", str(WIDTH), "-y", str(HEIGHT))
        self._tmux("-f", "/dev/null", "new-session", "-d", *size, self._command)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._tmux("kill-server")

    def screen(self, *, with_history: bool = False) -> str:
        """The current content of the screen."""
        return self._tmux("capture-pane", "-p", *(("-S", "-100") if with_history else ()))

    def press(self, *keys: str) -> None:
        """Keys by tmux name, such as Enter, Escape and Up, or characters."""
        self._tmux("send-keys", *keys)

    def until(self, condition: Callable[[str], bool], *, seconds: float = 20) -> str:
        """Wait for a screen, for a bounded time, and return it.

        The screen must be the same twice, because a capture may fall between two lines being drawn.
        """
        deadline = time.monotonic() + seconds
        before, screen = "", self.screen()
        while screen != before or not condition(screen):
            assert time.monotonic() < deadline, f"never seen; at last:\n{screen}"
            time.sleep(0.05)
            before, screen = screen, self.screen()
        return screen

    def _tmux(self, *words: str) -> str:
        answer = subprocess.run(
            ["tmux", "-L", self._socket, *words],
            env=self._environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return answer.stdout
