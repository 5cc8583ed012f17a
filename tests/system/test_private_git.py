"""The address that git gets as an argument holds no credential; git finds the credential in its settings."""

import base64
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from evalgate.system.git import GitError
from evalgate.system.private_git import open_private_repository

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


LOGINS: list[str] = []
"""Values of the header Authorization that `refusing_server` got."""


class _Refusal(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        LOGINS.extend(self.headers.get_all("Authorization", []))
        self.send_response(401)
        self.send_header("WWW-Authenticate", "Basic realm=git")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def refusing_server() -> Iterator[str]:
    LOGINS.clear()
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
        pytest.raises(GitError, match="could not read Password") as caught,
    ):
        repository.run_git("ls-remote", repository.fetch_url)
    assert f"'http://***@{refusing_server}'" in str(caught.value)
    assert "canary" not in str(caught.value)


JOB_TOKEN = "glcbt-64_0123456789abcdefghij"


@pytest.mark.parametrize(
    ("account", "server", "user", "expected"),
    [
        ("", "{host}", "", f"gitlab-ci-token:{JOB_TOKEN}"),
        ("", "{host}/gitlab", "", f"gitlab-ci-token:{JOB_TOKEN}"),
        ("", "gitlab.example.com", "", None),
        ("oauth2:glpat-0123456789abcdefghij@", "{host}", "", "oauth2:glpat-0123456789abcdefghij"),
        ("", "{host}", '[credential]\nhelper = "!echo username=me; echo password=own; :"\n', "me:own"),
    ],
    ids=["job", "in a folder", "another server", "in the address", "helper of the user"],
)
def test_git_logs_in_to_gitlab_as_the_job(
    account: str,
    server: str,
    user: str,
    expected: str | None,
    tmp_path: Path,
    refusing_server: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """GitLab's runner (18.6 and later) leaves no credentials in the address of `origin`."""
    (tmp_path / ".gitconfig").write_text(user, "utf-8")
    monkeypatch.setenv("HOME", str(tmp_path))
    add_remote(tmp_path, f"http://{account}{refusing_server}/o/r.git")
    environ = PATHS | {
        "CI_SERVER_URL": f"http://{server.format(host=refusing_server)}",
        "CI_JOB_TOKEN": JOB_TOKEN,
    }
    with (
        open_private_repository(tmp_path, "origin", environ) as repository,
        pytest.raises(GitError, match=r"could not read Username|Authentication failed"),
    ):
        repository.run_git("ls-remote", repository.fetch_url)
    logins = {base64.b64decode(each.split()[-1]).decode() for each in LOGINS}
    assert logins == ({expected} if expected else set())
