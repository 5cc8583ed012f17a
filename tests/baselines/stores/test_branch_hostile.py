"""A baseline on a branch, in a repository whose git configuration an agent has rewritten."""

import base64
import os
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from evalgate.baselines.stores.branch import BranchStore
from evalgate.core.errors import InvalidInputError
from tests.baselines.stores.test_branch import adding, clone, commits_in, git, origin

__all__ = ["origin"]

TOKEN = "ghs_canary0123456789"
RUNNER = 1001


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A program that leaves a file where it ran, with what it could see."""
    program = tmp_path / "trap"
    program.write_text(f"#!/bin/sh\nenv > {tmp_path}/sprung-$$\nexit 1\n")
    program.chmod(0o755)
    return program


def sprung(trap: Path) -> list[Path]:
    return list(trap.parent.glob("sprung-*"))


def poison(folder: Path, trap: Path) -> None:
    """Rewrite the configuration in every way that is known to run a program."""
    hooks = folder.parent / "hooks"
    hooks.mkdir()
    for name in ("pre-push", "reference-transaction", "post-index-change", "pre-auto-gc"):
        shutil.copy(trap, hooks / name)
    included = folder.parent / "included"
    included.write_text(f"[core]\n\tsshCommand = {trap}\n\tfsmonitor = {trap}\n")
    for key, value in {
        "core.sshCommand": trap,
        "core.fsmonitor": trap,
        "core.hooksPath": hooks,
        "core.gitProxy": trap,
        "core.askPass": trap,
        "core.editor": trap,
        "core.pager": trap,
        "core.alternateRefsCommand": trap,
        "credential.helper": f"!{trap}",
        "gpg.program": trap,
        "commit.gpgSign": "true",
        "log.showSignature": "true",
        "diff.external": trap,
        "filter.evil.smudge": trap,
        "filter.evil.clean": trap,
        "include.path": included,
        "remote.origin.uploadpack": trap,
        "remote.origin.receivepack": trap,
        "uploadpack.packObjectsHook": trap,
        "url.ext::evil.insteadOf": str(folder.parent),
        "protocol.ext.allow": "always",
    }.items():
        git(folder, "config", key, str(value))
    (folder / ".git/info").mkdir(exist_ok=True)
    (folder / ".git/info/attributes").write_text("* filter=evil diff=evil\n")


def test_no_program_of_the_repository_runs(
    origin: Path, tmp_path: Path, trap: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = clone(origin, tmp_path / "here")
    BranchStore(here, "data").update(adding("a"))
    poison(here, trap)
    for name in ("GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_PROXY_COMMAND", "GIT_EDITOR"):
        monkeypatch.setenv(name, str(trap))
    monkeypatch.setenv("GIT_EXEC_PATH", str(tmp_path / "hooks"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "remote.origin.receivepack")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", str(trap))
    store = BranchStore(here, "data")
    assert commits_in(store.update(adding("b"))) == ["a", "b"]
    assert commits_in(store.read()) == ["a", "b"]
    assert sprung(trap) == []


def test_the_repository_of_the_workspace_is_not_touched(origin: Path, tmp_path: Path) -> None:
    here = clone(origin, tmp_path / "here")
    before = {path: path.lstat().st_mtime_ns for path in (here / ".git").rglob("*")}
    BranchStore(here, "data").update(adding("a"))
    assert {path: path.lstat().st_mtime_ns for path in (here / ".git").rglob("*")} == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_hooks_of_a_remote_on_this_machine_run_as_the_agents_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    with TemporaryDirectory() as name:  # pytest's own folders are root's alone
        folder = Path(name)
        folder.chmod(0o755)
        git(folder, "init", "-q", "--bare", "host.git")
        here = clone(folder / "host.git", folder / "here")
        hook = folder / "host.git/hooks/pre-receive"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\n(id -u; env) > {name}/host.git/seen\n")
        hook.chmod(0o755)
        for path in (*folder.iterdir(), *folder.rglob("*/**/*")):
            os.chown(path, RUNNER, RUNNER, follow_symlinks=False)
        store = BranchStore(here, "data")
        assert commits_in(store.update(adding("a"))) == ["a"]
        seen = (folder / "host.git/seen").read_text()
        assert seen.startswith(f"{RUNNER}\n")
        assert TOKEN not in seen
        assert {path.lstat().st_uid for path in folder.rglob("*")} == {RUNNER}


@pytest.mark.parametrize("url", ["ext::sh -c 'touch {ran}'", "--upload-pack=touch {ran}", "-x:y"])
def test_an_address_is_no_command(origin: Path, tmp_path: Path, url: str) -> None:
    here, ran = clone(origin, tmp_path / "here"), tmp_path / "ran"
    git(here, "config", "remote.origin.url", url.format(ran=ran))
    with pytest.raises(InvalidInputError, match="the baseline cannot be read"):
        BranchStore(here, "data").read()
    assert not ran.exists()


class Host:
    """A host that lets nobody in, and remembers who asked and what any user could see of it."""

    def __init__(self) -> None:
        host = self
        self.headers: list[str] = []
        self.visible: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                host.headers += self.headers.get_all("Authorization", [])
                for process in Path("/proc").glob("[0-9]*"):
                    host.visible += [_read(process / name) for name in ("cmdline", "environ")]
                self.send_response(403)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_port}"


def _read(path: Path) -> str:
    """Return what a process shows of itself: only git's, as a gate's own environment is hidden elsewhere."""
    try:
        text = path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""
    is_git = "git" in _command(path.parent)
    return text if is_git else ""


def _command(process: Path) -> str:
    try:
        return (process / "comm").read_text()
    except OSError:
        return ""


@pytest.fixture
def host() -> Iterator[Host]:
    made = Host()
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def basic(user: str, password: str) -> str:
    return "basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def ask(here: Path) -> str:
    """Return what the error of a refused read says."""
    with pytest.raises(InvalidInputError) as error:
        BranchStore(here, "data").read()
    return str(error.value)


@pytest.mark.parametrize(
    ("address", "kept", "expected"),
    [
        ("http://{host}/a.git", "", [basic("x-access-token", TOKEN)]),
        ("http://{host}/a.git", "basic checkout", ["basic checkout"]),
        ("http://me:p%40ss@{host}/a.git", "basic checkout", ["basic checkout", basic("me", "p@ss")]),
    ],
    ids=["token", "left by the checkout", "in the address"],
)
def test_credentials_reach_the_host_and_nobody_else(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str, kept: str, expected: list[str]
) -> None:
    git(tmp_path, "init", "-q", "here")
    here = tmp_path / "here"
    git(here, "remote", "add", "origin", address.format(host=host.address))
    if kept:
        git(here, "config", f"http.http://{host.address}/.extraheader", f"AUTHORIZATION: {kept}")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_SERVER_URL", f"http://{host.address}")
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    said = ask(here)
    assert sorted(set(host.headers)) == sorted(expected)
    assert host.visible.count("") < len(host.visible), "git was not seen"
    secrets = (TOKEN, "p@ss", "p%40ss", *(each.removeprefix("basic ") for each in expected))
    for seen in (*host.visible, said):
        assert not [secret for secret in secrets if secret != "checkout" and secret in seen]


def test_the_token_goes_to_no_other_host(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(tmp_path, "init", "-q", "here")
    here = tmp_path / "here"
    git(here, "remote", "add", "origin", f"http://{host.address}/a.git")
    git(here, "config", f"url.http://{host.address}/evil/.insteadOf", "https://github.com/")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://github.com")
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    ask(here)
    assert host.headers == []
