"""The files of the dashboard and the API reference, and the dashboard for every other path."""

import hashlib
import html
import mimetypes
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec
from starlette.types import Scope

from queen import errors
from queen.server.auth.oidc import Oidc, Provider
from queen.server.auth.origins import PAGE_HEADERS, page_headers
from queen.server.compression import Compressible
from queen.server.http.answer import Answer, is_known
from queen.server.http.router import readable
from queen.settings import Settings

FOLDER: Final = Path(__file__).parents[1] / "dashboard"
"""The output of `make dashboard`, which is part of the wheel."""
_OF_ROUTES: Final = (b"api", b"iceberg", b"ws", b"metrics", b"livez", b"readyz", b"health")
"""First segments of paths that are never pages: they return a problem document."""
_FOR_EVER: Final = b"public, max-age=31536000, immutable"
_ASK_FIRST: Final = b"no-cache"
_INDEX: Final = "index.html"
_REFERENCE: Final = "docs.html"
_REFERENCE_PATHS: Final = (b"/docs", b"/docs/")
_ABSENT: Final = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Queen</title>
<h1>The dashboard is not built</h1>
<p>This server runs from a source checkout. Run <code>make dashboard</code> and restart it.</p>
<p>The API is available: see <a href="./api/v1/openapi.json">its OpenAPI document</a>.</p>
"""


class _File:
    """One file with its response headers."""

    def __init__(self, name: str, body: bytes, headers: Mapping[str, str] = PAGE_HEADERS) -> None:
        self.media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
        if self.media_type.startswith("text/"):
            self.media_type += "; charset=utf-8"
        # Names of assets contain a hash of their contents.
        self.cache: Final = _FOR_EVER if name.startswith("assets/") else _ASK_FIRST
        # Weak, because the compressed form has the same contents in other bytes.
        self.etag: Final = f'W/"{hashlib.sha256(body).hexdigest()[:32]}"'
        self._body: Final = Compressible(body)
        self._headers: Final = headers

    async def answer(self, header: Callable[[bytes], str | None]) -> Answer:
        headers = {**self._headers, "ETag": self.etag}
        if is_known(header(b"if-none-match"), self.etag):
            headers["Vary"] = "Accept-Encoding"
            return Answer(status=304, headers=headers, cache=self.cache)
        body, encoding = await self._body.encode(header(b"accept-encoding"))
        headers.update(encoding)
        return Answer(body, headers=headers, media_type=self.media_type, cache=self.cache)


class StaticFiles:
    """
    The built dashboard and API reference in memory.

    The browser renders the dashboard's pages. Each path that is neither a route nor a file returns
    the same document, if the request accepts HTML. Only `/docs` has a document of its own.
    """

    def __init__(
        self, settings: Settings, oidc: Oidc | None = None, *, folder: Path = FOLDER
    ) -> None:
        self._settings = settings
        self._oidc = oidc
        self._files: dict[str, _File] = {
            name: _File(name, path.read_bytes())
            for path in sorted(folder.rglob("*"))
            if path.is_file()
            and (name := path.relative_to(folder).as_posix()) not in (_INDEX, _REFERENCE)
        }
        index = folder / _INDEX
        self.is_built: Final = index.is_file()
        self._text = index.read_text("utf-8") if self.is_built else _ABSENT
        self._reference: _File | None = None
        if (reference := folder / _REFERENCE).is_file():
            text = _render(reference.read_text("utf-8"), settings, None)
            self._reference = _File(_REFERENCE, text.encode())
        self._provider: Provider | None = None
        self._index = self._build_index()

    def _build_index(self) -> _File:
        """Render the page. Its policy allows requests to the OIDC provider's token endpoint."""
        provider = self._provider
        endpoints = None if provider is None else provider.endpoints
        return _File(
            _INDEX,
            _render(self._text, self._settings, provider).encode(),
            page_headers(None if endpoints is None else endpoints.token_origin),
        )

    async def _document(self) -> _File:
        if self._oidc is not None and (provider := await self._oidc.provider()) != self._provider:
            self._provider = provider
            self._index = self._build_index()
        return self._index

    async def find(
        self, method: str, raw_path: bytes, header: Callable[[bytes], str | None]
    ) -> Answer:
        """Return a file, or the document of every page; raises NoSuchRoute."""
        first = raw_path.split(b"/", 2)[1] if raw_path.startswith(b"/") else b""
        if method in ("GET", "HEAD") and first not in _OF_ROUTES:
            name = raw_path[1:].decode("ascii", "replace")
            if raw_path in _REFERENCE_PATHS and self._reference is not None:
                return await self._reference.answer(header)
            if (file := self._files.get(name)) is not None:
                return await file.answer(header)
            is_asked = "text/html" in (header(b"accept") or "") or raw_path == b"/"
            if is_asked and first != b"assets":
                answer = await (await self._document()).answer(header)
                if not self.is_built:
                    answer.status = 404
                return answer
        raise errors.NoSuchRoute(f"the path {readable(raw_path)} does not exist")


def _render(text: str, settings: Settings, provider: Provider | None) -> str:
    """Insert the path prefix, the environment's name, and the URLs of traces and OIDC."""
    prefix = settings.path_prefix
    for name, value in (
        ("prefix", prefix),
        ("environment", settings.environment or ""),
        ("traces", settings.trace_url or ""),
        ("oidc", "" if provider is None else msgspec.json.encode(provider).decode()),
    ):
        text = text.replace(
            f'name="queen-{name}" content=""',
            f'name="queen-{name}" content="{html.escape(value, quote=True)}"',
        )
    return text.replace('"./', f'"{prefix}/')


def without_prefix(scope: Scope, prefix: str) -> None:
    """Remove the prefix from a path, unless a proxy already did."""
    path, raw = scope["path"], scope["raw_path"] or scope["path"].encode()
    if path == prefix:
        path, raw = path + "/", raw + b"/"
    if raw.startswith(f"{prefix}/".encode()):
        scope["path"], scope["raw_path"] = path[len(prefix) :], raw[len(prefix) :]
