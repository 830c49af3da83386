"""nginx, haproxy and Caddy with the configurations of docs/operate/deploy/reverse-proxy.md."""

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from tests.deploy.files import fence, program, started
from tests.support.certificates import Authority
from tests.support.nginx import HEAD
from tests.support.ports import free_port
from tests.support.server import until

PAGE = "reverse-proxy.md"
UPSTREAM = re.compile(r"10\.0\.0\.1[12]:6632")

_NGINX = HEAD + "{page}\n}}\n"


class Proxy(NamedTuple):
    """A running proxy with TLS."""

    base_url: str
    ca_file: Path
    tls: ssl.SSLContext


class Prepared(NamedTuple):
    """A configuration file, and the command that uses it."""

    text: str
    command: list[str]


def _nginx(directory: Path, port: int, certificate: Path, key: Path) -> Prepared:
    page = fence(PAGE, "nginx", "upstream queen")
    page = page.replace("listen 443 ssl", f"listen 127.0.0.1:{port} ssl")
    page = page.replace("/etc/ssl/private/queen.crt", str(certificate))
    page = page.replace("/etc/ssl/private/queen.key", str(key))
    command = [program("nginx"), "-p", str(directory), "-c", str(directory / "config")]
    return Prepared(_NGINX.format(directory=directory, page=page), command)


def _haproxy(directory: Path, port: int, certificate: Path, key: Path) -> Prepared:
    (directory / "queen.pem").write_text(certificate.read_text() + key.read_text())
    page = fence(PAGE, "haproxy", "frontend queen")
    page = page.replace("bind :443", f"bind 127.0.0.1:{port}")
    page = page.replace("/etc/ssl/private/queen.pem", str(directory / "queen.pem"))
    return Prepared(page, [program("haproxy"), "-db", "-f", str(directory / "config")])


def _caddy(directory: Path, port: int, certificate: Path, key: Path) -> Prepared:
    page = fence(PAGE, "caddy", "reverse_proxy")
    # Instead of a certificate from the network.
    site = f"https://127.0.0.1:{port} {{\n  tls {certificate} {key}\n"
    page = page.replace("queen.example.com {\n", site)
    options = "{\n  admin off\n  auto_https off\n}\n"
    command = [program("caddy"), "run", "--adapter", "caddyfile", "--config"]
    return Prepared(options + page, [*command, str(directory / "config")])


PROXIES = {"nginx": _nginx, "haproxy": _haproxy, "caddy": _caddy}


@asynccontextmanager
async def proxy(name: str, upstream: str, directory: Path) -> AsyncGenerator[Proxy]:
    """Run a proxy in front of a server, as the page configures it."""
    authority = Authority(directory)
    pair = authority.sign("server")
    port = free_port()
    prepared = PROXIES[name](directory, port, pair.certificate, pair.key)
    config = UPSTREAM.sub(upstream.removeprefix("http://"), prepared.text)
    (directory / "config").write_text(config)
    log = directory / "log"
    home = {"HOME": str(directory), "XDG_DATA_HOME": str(directory)}
    process = started(prepared.command, log, **home)

    async def accepts() -> bool:
        assert process.poll() is None, log.read_text()
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        writer.close()
        return True

    try:
        await until(accepts, seconds=20)
        tls = ssl.create_default_context(cafile=authority.certificate)
        yield Proxy(f"https://127.0.0.1:{port}", authority.certificate, tls)
    finally:
        process.kill()
        await asyncio.to_thread(process.wait, 20)
