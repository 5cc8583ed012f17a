"""Other users of the machine and other sites reach nothing, and can change nothing."""

import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from evalgate.core.errors import InvalidInputError
from evalgate.viewer.app import create_app
from evalgate.viewer.forms import read_form
from evalgate.viewer.records import RecordStore
from evalgate.viewer.security import MAX_BODY_BYTES, MAX_QUERY_BYTES, Access
from evalgate.viewer.server import open_socket
from evalgate.viewer.state import Viewer
from tests.viewer.serving import TOKEN, create_viewer, open_client, serve_viewer

HOME = "http://127.0.0.1:8123"


@pytest.fixture
def viewer(tmp_path: Path) -> Viewer:
    return create_viewer(tmp_path)


@pytest.fixture
def changes(viewer: Viewer) -> Iterator[tuple[TestClient, list[object]]]:
    """A client, and the forms that reached a page."""
    reached: list[object] = []

    async def change(request: Request) -> Response:
        reached.append(dict(await read_form(request)))
        return PlainTextResponse("done")

    client = open_client(viewer)
    client.app.router.routes.append(Route("/change", change, methods=["POST"]))  # type: ignore[attr-defined]
    yield client, reached
    client.close()


def test_the_first_address_sets_a_cookie_and_drops_its_token(viewer: Viewer) -> None:
    client = open_client(viewer, has_cookie=False)

    answer = client.get(f"/records/x%2Fy?token={TOKEN}&q=a%26b")

    assert (answer.status_code, answer.headers["location"]) == (303, "/records/x%2Fy?q=a%26b")
    cookie = answer.headers["set-cookie"]
    assert cookie == f"evalgate_view_8123={viewer.access.session}; HttpOnly; SameSite=Strict; Path=/"
    assert TOKEN not in cookie
    assert client.get("/").status_code == 200


@pytest.mark.parametrize("others", ['prefs={"a": 1}', "a[b]=1", "flag", 'q="open', "n=\u00e9", "=; ;;"])
def test_odd_cookies_of_other_programs_are_passed_over(viewer: Viewer, others: str) -> None:
    cookie = f"{others}; {viewer.access.cookie_name}={viewer.access.session}; z={{}}"
    client = open_client(viewer, has_cookie=False)

    assert client.get("/", headers=[(b"cookie", cookie.encode())]).status_code == 200
    assert client.get("/", headers=[(b"cookie", others.encode())]).status_code == 403


def test_a_link_on_another_site_leads_here(viewer: Viewer) -> None:
    answer = open_client(viewer, has_cookie=False).get(
        f"/records/a'b?q=%3Cb%3E&token={TOKEN}", headers={"sec-fetch-site": "cross-site"}
    )

    assert answer.status_code == 200
    assert 'content="0; url=/records/a&#x27;b?q=%3Cb%3E"' in answer.text
    assert viewer.access.session in answer.headers["set-cookie"]
    assert TOKEN not in answer.text


@pytest.mark.parametrize("path", ["//evil.example/", "/\\evil.example", "///evil.example"])
def test_the_redirect_stays_on_the_server(viewer: Viewer, path: str) -> None:
    with TestClient(create_app(viewer), base_url=HOME, follow_redirects=False) as client:
        target = client.get(f"{HOME}{path}?token={TOKEN}").headers["location"]
    assert target.startswith("/")
    assert not target.startswith(("//", "/\\"))


@pytest.mark.parametrize("path", ["/", "/records/last", "/static/viewer.js", f"/?token={TOKEN}x", "/?token="])
def test_without_the_cookie_there_is_only_a_sentence(viewer: Viewer, path: str) -> None:
    for cookie in ("", "evalgate_view_8123=wrong", "a=b;;=;evalgate_view_8123", "evalgate_view_8123=\u00e9"):
        client = open_client(viewer, has_cookie=False)
        answer = client.get(path, headers=[(b"cookie", cookie.encode())] if cookie else [])
        assert answer.status_code == 403
        assert "printed in the terminal" in answer.text
        assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "host", ["evil.example:8123", "127.0.0.1:9999", "127.0.0.1", "localhost.evil.example:8123", ""]
)
def test_a_name_that_leads_here_is_refused(viewer: Viewer, host: str) -> None:
    answer = open_client(viewer).get("/", headers={"host": host})

    assert answer.status_code == 421
    assert open_client(viewer).get(f"/?token={TOKEN}", headers={"host": host}).status_code == 421


def test_an_address_of_one_s_own_choice_is_accepted(tmp_path: Path) -> None:
    viewer = Viewer(tmp_path, RecordStore(tmp_path), Access(8123, TOKEN, "127.0.0.2"))
    client = open_client(viewer, has_cookie=False)

    assert client.get("/", headers={"host": "127.0.0.2:8123"}).status_code == 403
    assert client.get(viewer.access.address).status_code == 303
    assert client.get("/", headers={"host": "127.0.0.3:8123"}).status_code == 421


@pytest.mark.parametrize("host", ["localhost:8123", "LOCALHOST:8123", "[::1]:8123"])
def test_the_names_of_this_machine_are_accepted(viewer: Viewer, host: str) -> None:
    assert open_client(viewer).get("/", headers={"host": host}).status_code == 200


def test_every_answer_forbids_foreign_content(viewer: Viewer) -> None:
    client = open_client(viewer)
    answers = [
        client.get("/"),
        client.get("/nowhere"),
        client.get("/static/viewer.css"),
        client.get("/", headers={"host": "evil.example"}),
        client.post("/", headers={"origin": "http://evil.example"}),
    ]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; style-src 'self'; script-src 'self';")
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["cache-control"] == "no-store"


def test_a_form_of_the_viewer_is_accepted(viewer: Viewer, changes: tuple[TestClient, list[object]]) -> None:
    client, reached = changes
    token = viewer.access.csrf_token

    sent = client.post("/change", data={"csrf": token, "text": "a\r\nb\u202e", "empty": ""})
    by_script = client.post("/change", data={"text": "c"}, headers={"x-evalgate-csrf": token})

    assert (sent.text, by_script.text) == ("done", "done")
    assert reached == [{"csrf": (token,), "text": ("a\r\nb\u202e",), "empty": ("",)}, {"text": ("c",)}]


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "https://127.0.0.1:8123"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": HOME, "sec-fetch-site": "cross-site"},
        {"origin": HOME, "sec-fetch-site": "same-site"},
    ],
)
def test_a_form_of_another_site_is_refused(
    viewer: Viewer, changes: tuple[TestClient, list[object]], headers: dict[str, str]
) -> None:
    client, reached = changes

    answer = client.post("/change", data={"csrf": viewer.access.csrf_token}, headers=headers)

    assert (answer.status_code, reached) == (403, [])


@pytest.mark.parametrize("csrf", ["", "wrong", TOKEN])
def test_a_form_without_its_token_is_refused(changes: tuple[TestClient, list[object]], csrf: str) -> None:
    client, reached = changes

    assert client.post("/change", data={"csrf": csrf}).status_code == 403
    assert client.post("/change", content=f'{{"csrf": "{csrf}"}}').status_code == 403
    assert reached == []


def test_large_requests_are_refused(viewer: Viewer, changes: tuple[TestClient, list[object]]) -> None:
    client, reached = changes
    data = {"csrf": viewer.access.csrf_token, "text": "x" * MAX_BODY_BYTES}

    assert client.post("/change", data=data).status_code == 413
    assert client.get("/", params={"q": "x" * MAX_QUERY_BYTES}).status_code == 414
    assert reached == []


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(viewer: Viewer, method: str) -> None:
    assert open_client(viewer).request(method, "/").status_code == 405


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2f..%2fapp.py",
        "/records/..%2F..%2Fetc%2Fpasswd",
        "/static//etc/passwd",
    ],
)
def test_no_address_leads_to_another_file(viewer: Viewer, path: str) -> None:
    answer = open_client(viewer).get(path)
    assert answer.status_code == 404
    assert "root:" not in answer.text
    assert "create_app" not in answer.text


def test_bytes_on_the_socket(tmp_path: Path) -> None:
    """What no client library sends: two hosts, none, an absolute address, a broken request."""
    with serve_viewer(tmp_path) as address:
        port = urlsplit(address).port
        assert port is not None

        def ask(*lines: str) -> str:
            with socket.create_connection(("127.0.0.1", port), 5) as connection:
                connection.sendall("\r\n".join([*lines, "Connection: close", "", ""]).encode())
                return b"".join(iter(lambda: connection.recv(65536), b"")).decode()

        ours = f"Host: 127.0.0.1:{port}"
        refused = [
            ask("GET / HTTP/1.1", ours),
            ask("GET / HTTP/1.1", "Host: evil.example"),
            ask("GET / HTTP/1.1", ours, "Host: evil.example"),
            ask("GET / HTTP/1.0"),
            ask(f"GET http://evil.example/?token={TOKEN} HTTP/1.1", "Host: evil.example"),
            ask("GET / HTTP/1.1", ours, f"X-Forwarded-Host: 127.0.0.1:{port}", "Cookie: a=b"),
            ask("POST / HTTP/1.1", ours, "Content-Length: 5"),
            ask("NONSENSE"),
        ]
        for answer in refused:
            assert answer.startswith(("HTTP/1.1 403", "HTTP/1.1 421", "HTTP/1.1 400"))
            assert "set-cookie" not in answer.lower()
        assert "set-cookie: evalgate_view" in ask(f"GET /?token={TOKEN} HTTP/1.1", ours)


def test_a_connection_without_a_request_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evalgate.viewer.connections.HEAD_S", 0.3)
    with serve_viewer(tmp_path) as address:
        port = urlsplit(address).port
        assert port is not None
        for begun in (b"", b"GET / HTTP/1.1\r\nHost: 127", b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HT"):
            with socket.create_connection(("127.0.0.1", port), 5) as connection:
                connection.sendall(begun)
                answer = b"".join(iter(lambda: connection.recv(65536), b""))
                assert answer.startswith(b"HTTP/1.1 421") == begun.endswith(b"GET / HT")


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.168.0.1", "example.com", "", "127.0.0.1.evil.example"]
)
def test_only_loopback_addresses_are_listened_on(host: str) -> None:
    with pytest.raises(InvalidInputError, match="loopback addresses only"):
        open_socket(host, 0)


def test_a_taken_port_is_named() -> None:
    with open_socket("127.0.0.1", 0) as taken:
        taken.listen()
        with pytest.raises(InvalidInputError, match="the port cannot be used"):
            open_socket("127.0.0.1", taken.getsockname()[1])
