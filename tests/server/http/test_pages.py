"""The dashboard's files: responses, caching, and paths that are not pages."""

import asyncio
from pathlib import Path

import pytest

from queen import errors
from queen.server.http.answer import Answer
from queen.server.http.static_files import StaticFiles
from queen.settings import Settings
from tests.support.server import Server

INDEX = """<!doctype html>
<meta name="queen-prefix" content="">
<meta name="queen-environment" content="">
<meta name="queen-oidc" content="">
<script type="module" src="./assets/index-1a2b.js"></script>
"""
DOCS = """<!doctype html>
<meta name="queen-prefix" content="">
<script type="module" src="./assets/docs-3c4d.js"></script>
"""
BROWSER = {"Accept": "text/html,*/*;q=0.8"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small dashboard."""
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text(INDEX, "utf-8")
    (tmp_path / "assets" / "index-1a2b.js").write_text("console.log(1);\n" * 100, "utf-8")
    (tmp_path / "favicon.svg").write_text("<svg/>", "utf-8")
    (tmp_path / "docs.html").write_text(DOCS, "utf-8")
    return tmp_path


async def find(folder: Path, path: str, settings: Settings | None = None, **headers: str) -> Answer:
    sent = {name.replace("_", "-").encode(): value for name, value in headers.items()}
    pages = StaticFiles(settings or Settings(), folder=folder)
    return await pages.find("GET", path.encode(), sent.get)


async def test_a_file_with_a_hash_in_its_name_is_cached_forever(folder: Path) -> None:
    answer = await find(folder, "/assets/index-1a2b.js")

    assert answer.status == 200
    assert answer.cache == b"public, max-age=31536000, immutable"
    assert answer.media_type == "text/javascript; charset=utf-8"


async def test_the_document_is_revalidated(folder: Path) -> None:
    first = await find(folder, "/")
    assert first.headers is not None
    again = await find(folder, "/", if_none_match=first.headers["ETag"])

    assert (first.status, first.cache) == (200, b"no-cache")
    assert (again.status, again.body) == (304, None)


async def test_clients_that_accept_gzip_get_it(folder: Path) -> None:
    plain = await find(folder, "/assets/index-1a2b.js")
    packed = await find(folder, "/assets/index-1a2b.js", accept_encoding="gzip, br")

    assert packed.headers is not None
    assert packed.headers["Content-Encoding"] == "gzip"
    assert packed.body is not None
    assert plain.body is not None
    assert len(packed.body) < len(plain.body)


@pytest.mark.parametrize(
    "accepted", ["gzip;q=0", "br", "gzip; q=0.0, *", "xgzip", "*;q=0", "gzip;q=x"]
)
async def test_clients_that_reject_gzip_do_not_get_it(folder: Path, accepted: str) -> None:
    answer = await find(folder, "/assets/index-1a2b.js", accept_encoding=accepted)

    assert answer.headers is not None
    assert "Content-Encoding" not in answer.headers


async def test_an_etag_is_weak_and_matched_in_a_list(folder: Path) -> None:
    first = await find(folder, "/")
    assert first.headers is not None
    tag = first.headers["ETag"]

    assert tag.startswith('W/"')  # The compressed file has the same tag.
    for known in (f'"other", {tag}', tag.removeprefix("W/"), "*"):
        assert (await find(folder, "/", if_none_match=known)).status == 304
    assert (await find(folder, "/", if_none_match='"other"')).status == 200


async def test_every_page_returns_the_document_to_browsers(folder: Path) -> None:
    assert (await find(folder, "/queues/a%2Fb.c", accept="text/html")).media_type == (
        "text/html; charset=utf-8"
    )
    with pytest.raises(errors.NoSuchRoute):
        await find(folder, "/queues/a%2Fb.c", accept="*/*")


@pytest.mark.parametrize(
    "path", ["/api/v1/nothing", "/api", "/metrics/none", "/ws/none", "/assets/gone.js"]
)
async def test_missing_api_paths_and_files_do_not_return_the_document(
    folder: Path, path: str
) -> None:
    with pytest.raises(errors.NoSuchRoute):
        await find(folder, path, accept="text/html")


async def test_the_document_contains_its_prefix_and_environment(folder: Path) -> None:
    settings = Settings(path_prefix="/queen", environment='prod"><script>')

    body = ((await find(folder, "/", settings)).body or b"").decode()

    assert 'src="/queen/assets/index-1a2b.js"' in body
    assert 'name="queen-prefix" content="/queen"' in body
    assert 'name="queen-environment" content="prod&quot;&gt;&lt;script&gt;"' in body


@pytest.mark.parametrize("path", ["/docs", "/docs/"])
async def test_the_api_reference_has_a_document_of_its_own(folder: Path, path: str) -> None:
    answer = await find(folder, path, Settings(path_prefix="/queen"), accept="*/*")

    body = bytes(answer.body or b"").decode()
    assert (answer.status, answer.cache) == (200, b"no-cache")
    assert answer.media_type == "text/html; charset=utf-8"
    assert 'src="/queen/assets/docs-3c4d.js"' in body
    assert 'name="queen-prefix" content="/queen"' in body


async def test_the_file_of_the_api_reference_is_never_sent_without_its_prefix(folder: Path) -> None:
    with pytest.raises(errors.NoSuchRoute):
        await find(folder, "/docs.html")


async def test_the_api_reference_has_the_policy_of_the_dashboard(folder: Path) -> None:
    page, reference = await find(folder, "/"), await find(folder, "/docs")

    assert page.headers is not None
    assert reference.headers is not None
    policy = "Content-Security-Policy"
    assert reference.headers[policy] == page.headers[policy]


async def test_a_checkout_without_the_api_reference_explains_how_to_build_it(
    tmp_path: Path,
) -> None:
    answer = await find(tmp_path, "/docs", accept="text/html")

    assert answer.status == 404
    assert b"make dashboard" in (answer.body or b"")


@pytest.mark.parametrize("prefix", ["queen", "/queen/", "/a b", '/"', "//"])
def test_an_invalid_prefix_stops_the_start(prefix: str) -> None:
    with pytest.raises(errors.BadSettings):
        Settings.from_environ({"QUEEN_PATH_PREFIX": prefix})


@pytest.mark.parametrize(
    "url", ["javascript:{traceId}", "https://traces/", "{traceId}", "https://a {traceId}"]
)
def test_an_invalid_trace_url_stops_the_start(url: str) -> None:
    with pytest.raises(errors.BadSettings):
        Settings.from_environ({"QUEEN_TRACE_URL": url})


async def test_a_checkout_without_the_dashboard_explains_how_to_build_it(tmp_path: Path) -> None:
    answer = await find(tmp_path, "/", accept="text/html")

    assert answer.status == 404
    assert b"make dashboard" in (answer.body or b"")


async def test_a_server_responds_with_and_without_its_prefix(dsn: str) -> None:
    async with Server(dsn, {"QUEEN_PATH_PREFIX": "/tools/queen"}) as server:
        url = server.base_url
        for path in ("/tools/queen/", "/tools/queen", "/"):
            async with server.session.get(url + path, headers=BROWSER) as answer:
                text = await answer.text()
                assert answer.content_type == "text/html"
                assert '"/tools/queen/' in text
                policy = answer.headers["Content-Security-Policy"]
                assert "unsafe" not in policy
        async with server.session.get(f"{url}/tools/queen/api/v1/openapi.json") as answer:
            assert (await answer.json())["servers"] == [{"url": "/tools/queen"}]
        for path in ("/tools/queen/livez", "/livez", "/tools/queen/api/v1/openapi.json"):
            async with server.session.get(url + path) as answer:
                assert answer.status == 200
        for path in ("/tools/queen/api/v1/none", "/api/v1/none", "/tools/queenly/livez"):
            async with server.session.get(url + path) as answer:
                assert answer.status == 404
                assert (await answer.json(content_type=None))["code"] == "no_such_route"
        async with server.session.ws_connect(f"{url}/tools/queen/ws/dashboard") as socket:
            assert (await socket.receive_json())["event"]


async def test_a_response_without_a_body_has_no_content_length(shared: Server) -> None:
    async with shared.session.get(f"{shared.base_url}/", headers=BROWSER) as first:
        tag = first.headers["ETag"]
    reader, writer = await asyncio.open_connection("localhost", shared.port)
    writer.write(f"GET / HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: {tag}\r\n\r\n".encode())
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    # The next response on the connection is read correctly without a length.
    writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    after = await reader.read()
    writer.close()

    assert head.startswith(b"http/1.1 304")
    assert b"content-length" not in head
    assert after.startswith(b"HTTP/1.1 200")


async def test_a_link_from_another_site_opens_only_a_page(shared: Server) -> None:
    async with shared.session.get(
        f"{shared.base_url}/queues",
        headers={**BROWSER, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
    ) as answer:
        assert answer.content_type == "text/html"
    async with shared.session.get(
        f"{shared.base_url}/queues",
        headers={**BROWSER, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
    ) as answer:
        assert answer.status == 403
