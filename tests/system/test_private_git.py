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


@pytest.mark.parametrize("account", ["ghp_TOKEN", "me:ghp_TOKEN", "ghp_TOKEN:"])
def test_a_token_is_no_part_of_the_address(account: str, tmp_path: Path) -> None:
    add_remote(tmp_path, f"https://{account}@github.com/o/r")
    with open_private_repository(tmp_path, "origin", {}) as repository:
        assert repository.fetch_url == repository.push_url == "https://github.com/o/r"


def test_git_sends_a_token_that_is_the_user(tmp_path: Path) -> None:
    add_remote(tmp_path, "https://ghp_TOKEN@github.com/o/r")
    with open_private_repository(tmp_path, "origin", PATHS) as repository:
        header = repository.run_git("config", "--get-urlmatch", "http.extraheader", repository.fetch_url)
    assert base64.b64decode(header.split()[-1]) == b"ghp_TOKEN:"


def test_git_asks_for_the_password_of_the_user_in_the_address(tmp_path: Path) -> None:
    add_remote(tmp_path, "https://me%40firm@example.com:8443/o/r")
    program = tmp_path / "ask"
    program.write_text("#!/bin/sh\necho word\n")
    program.chmod(0o755)
    with open_private_repository(tmp_path, "origin", PATHS | {"GIT_ASKPASS": str(program)}) as repository:
        filled = repository.run_git("credential", "fill", stdin=f"url={repository.fetch_url}\n\n")
        header = repository.run_git("config", "--get-regexp", "extraheader", missing=1)
    assert {"username=me@firm", "password=word"} <= set(filled.splitlines())
    assert not header


def test_the_password_of_the_user_may_be_in_a_netrc_file(tmp_path: Path) -> None:
    add_remote(tmp_path, "https://me@example.com/o/r")
    (tmp_path / ".netrc").write_text("machine example.com login me password word\n")
    with open_private_repository(tmp_path, "origin", PATHS | {"HOME": str(tmp_path)}) as repository:
        assert not repository.run_git("config", "--get-regexp", "extraheader", missing=1)
