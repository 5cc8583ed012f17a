"""The address that git gets as an argument holds no credential; git finds the credential in its settings."""

import base64
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from evalgate.system.private_git import PrivateGitError, open_private_repository

PATHS = {"PATH": "/usr/bin:/bin"}


def add_remote(folder: Path, url: str) -> None:
    for words in (["init", "-q"], ["remote", "add", "origin", url]):
        subprocess.run(["git", *words], cwd=folder, check=True)


@pytest.mark.parametrize(
    "account", ["ghp_0123456789abcdefghij", "me:ghp_0123456789abcdefghij", "ghp_0123456789abcdefghij:"]
)
def test_a_token_is_no_part_of_the_address(account: str, tmp_path: Path) -> None:
    add_remote(tmp_path, f"https://{account}@github.com/o/r")
    with open_private_repository(tmp_path, "origin", {}) as repository:
        assert repository.fetch_url == repository.push_url == "https://github.com/o/r"


def test_git_sends_a_token_that_is_the_user(tmp_path: Path) -> None:
    add_remote(tmp_path, "https://ghp_0123456789abcdefghij@github.com/o/r")
    with open_private_repository(tmp_path, "origin", PATHS) as repository:
        header = repository.run_git("config", "--get-urlmatch", "http.extraheader", repository.fetch_url)
    assert base64.b64decode(header.split()[-1]) == b"ghp_0123456789abcdefghij:"


@pytest.mark.parametrize("account", ["git", "me%40firm", "my-organisation-of-many-words"])
def test_an_address_with_a_plain_user_stays_as_it_is(account: str, tmp_path: Path) -> None:
    """Git chooses headers (as Azure's checkout stores them), helpers and `.netrc` entries by the user."""
    address = f"https://{account}@example.com:8443/o/r"
    add_remote(tmp_path, address)
    with open_private_repository(tmp_path, "origin", PATHS) as repository:
        assert repository.fetch_url == repository.push_url == address
        assert not repository.run_git("config", "--get-regexp", "extraheader", missing=1)


class _Refusal(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(401)
        self.send_header("WWW-Authenticate", "Basic realm=git")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def refusing_server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Refusal) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("user", ["canary1", "canaryofmorethantwentyletters", "canary%40firm"])
def test_an_error_of_git_names_no_user(user: str, tmp_path: Path, refusing_server: str) -> None:
    """A token that looks like a plain user stays in the address, and git prints it if no helper knows it."""
    add_remote(tmp_path, f"http://{user}@{refusing_server}/o/r")
    with (
        open_private_repository(tmp_path, "origin", PATHS) as repository,
        pytest.raises(PrivateGitError, match="could not read Password") as caught,
    ):
        repository.run_git("ls-remote", repository.fetch_url)
    assert f"'http://***@{refusing_server}'" in str(caught.value)
    assert "canary" not in str(caught.value)
