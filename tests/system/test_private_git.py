"""The address that git gets as an argument holds no credential; git finds the credential in its settings."""

import base64
import subprocess
from pathlib import Path

import pytest

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
