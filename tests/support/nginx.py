"""nginx in front of a server, in the foreground, on its own port."""

import asyncio
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.ports import free_port
from tests.support.server import until

HEAD = """\
daemon off;
master_process off;
pid {directory}/pid;
error_log stderr crit;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  client_body_temp_path {directory}/body;
  proxy_temp_path {directory}/proxy;
  fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi;
  scgi_temp_path {directory}/scgi;
"""
"""Begins a configuration for one process in the foreground, with all files in one directory."""

_CONFIG = (
    HEAD
    + """\
  {shared}
  upstream queen {{ server {upstream}; keepalive 16; }}
  server {{
    listen 127.0.0.1:{port};
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_set_header Host $http_host;
    proxy_read_timeout 60s;
    location / {{
      {rules}
      proxy_pass http://queen;
    }}
    {locations}
  }}
}}
"""
)


class Nginx:
    """
    Forwards requests. ``{directory}`` in its rules is its own directory.

    Usage::

        async with Nginx(server.base_url, "if (-f {directory}/closed) { return 403; }") as proxy:
            proxy.path("closed").touch()
    """

    def __init__(
        self, upstream: str, rules: str = "", *, shared: str = "", locations: str = ""
    ) -> None:
        self._upstream = upstream.removeprefix("http://")
        self._port = free_port()
        self.base_url = f"http://127.0.0.1:{self._port}"
        self._rules = rules
        self._shared = shared
        self._locations = locations
        self._directory = tempfile.TemporaryDirectory()
        self._process: subprocess.Popen[bytes] | None = None

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def path(self, name: str) -> Path:
        """A file in its directory, for rules to check."""
        return Path(self._directory.name, name)

    async def start(self) -> None:
        """Start, and wait until it accepts connections."""
        self._launch()
        await until(self._accepts, seconds=20)

    def _launch(self) -> None:
        directory = self._directory.name
        config = self.path("nginx.conf")
        config.write_text(
            _CONFIG.format(
                directory=directory,
                port=self._port,
                upstream=self._upstream,
                shared=self._shared,
                rules=self._rules.replace("{directory}", directory),
                locations=self._locations,
            )
        )
        command = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
        assert command is not None, "nginx is missing: .ci/packages installs it"
        self._process = subprocess.Popen(
            [command, "-p", directory, "-c", str(config)], stdin=subprocess.DEVNULL
        )

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(20)
            self._process = None
        self._directory.cleanup()

    async def _accepts(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "nginx ended while starting"
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            return False
        writer.close()
        return True
