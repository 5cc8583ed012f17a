"""Fetch from a remote and push to it with git, in a private repository that the agent cannot write.

The agent can write the repository in the workspace. Its configuration may name programs (`core.sshCommand`,
hooks, filters, credential helpers, `ext::` addresses) and other servers (`url.*.insteadOf`). So the gate runs
only `git config` there, to read the address and the headers that a checkout left. The gate uses them in a
new bare repository outside of the workspace. Only the user as which git runs can read this repository. Git
gets an allow-listed environment with no secret in it. Credentials are in a file, never in an argument.
"""

import base64
import os
import re
import shlex
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from evalgate.core.frozen import frozen
from evalgate.system.agent_environment import build_agent_environment
from evalgate.system.git import SAFE_SETTINGS, GitError, run_git_bytes
from evalgate.system.workspace import open_workspace

_TIMEOUT_S = 120
_NETWORK = re.compile(r"(?:https?|ssh|git|git\+ssh)://|(?!-)[\w.@-]+:(?!//)|\[[^]/]+\]:")
"""Pattern of the addresses of other machines, such as `https://…` and `host:path`. Any other address is a
folder of this machine."""
_USER = re.compile(r"(https?://)[^\s/?#'\"]+@")
"""Pattern of the user name and password of an address in git's messages, which are hidden. Even a user name
alone may be a token."""
_PROTOCOLS = "file:git:http:https:ssh"
_GITHUB_TOKENS = ("GITHUB_TOKEN", "GH_TOKEN", "INPUT_TOKEN")
_FROM_JOB = ("SSH_AUTH_SOCK", "SSH_AGENT_PID", "GIT_ASKPASS", "SSH_ASKPASS", "DISPLAY")
"""Environment variables with which git can log in by the job's keys. On GitHub, git gets a token instead."""
_SHORTEST_TOKEN = 20
_HEADERS = r"^http\..*\.extraheader$"
_CONNECTIONS = r"^http\.(.*\.)?(extraheader|proxy|sslcainfo)$"
_PERSONS = r"^(credential\..*|http\..*|url\..*\.(push)?insteadof)$"

Setting = tuple[str, str]
"""A key of git's configuration, such as `http.https://github.com/.extraheader`, and its value."""


@frozen
class PrivateRepository:
    """Bare repository outside of the workspace, and the addresses of the workspace's remote."""

    folder: Path
    fetch_url: str
    push_url: str
    environ: Mapping[str, str]
    """The whole environment of git."""
    user: tuple[int, int] | None
    """uid and gid as which git runs; None: those of the gate."""

    def run_git(
        self, *arguments: str, stdin: str = "", env: Mapping[str, str] | None = None, missing: int = 0
    ) -> str:
        """Run git in the repository and return its stdout.

        `missing` is the exit code by which the git command says that something does not exist; then "" is
        returned. It is 0 if the command has no such code. `env` is added to the repository's `environ`.

        Raises:
            GitError: git cannot be run, fails, or takes longer than two minutes.
        """
        settings = (*SAFE_SETTINGS, "gc.auto=0")
        command = ("git", *(word for each in settings for word in ("-c", each)), *arguments)
        uid, gid = self.user or (None, None)
        try:
            done = subprocess.run(
                command,
                cwd=self.folder,
                env={**self.environ, **(env or {})},
                user=uid,
                group=gid,
                extra_groups=None if uid is None else (),
                input=stdin,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise GitError(f"git cannot be run ({type(error).__name__})") from None
        if done.returncode and done.returncode == missing:
            return ""
        if done.returncode:
            sentence = _USER.sub(r"\1***@", " ".join(done.stderr.split()))
            raise GitError(sentence or f"exit code {done.returncode}")
        return done.stdout


@contextmanager
def open_private_repository(
    folder: Path, remote: str, environ: Mapping[str, str]
) -> Iterator[PrivateRepository]:
    """Create an empty private repository, which can fetch from a remote and push to it.

    `remote` is the name of the remote in the repository in `folder`, such as `origin`. The private repository
    is removed after the block.

    A remote may be a folder of this machine, and may then run programs, such as hooks. So if the gate is root
    and the workspace belongs to another user, git uses this remote as the agent's user, without credentials.

    Raises:
        GitError: there is no such remote, or git cannot be run.
    """
    found = dict(_read_settings(folder, rf"^remote\.{re.escape(remote)}\.(url|pushurl)$", "--local"))
    url = found.get(f"remote.{remote}.url", "")
    if not url:
        raise GitError(f"the repository in {folder} has no remote `{remote}`")
    push_url = found.get(f"remote.{remote}.pushurl", url)
    is_remote = all(map(_NETWORK.match, (url, push_url)))
    user = open_workspace(folder).agent_user
    with TemporaryDirectory(prefix="evalgate-git-") as name:
        home = Path(name)
        git_user = None if is_remote else user
        addresses, headers = zip(*(_split_address(each, folder) for each in (url, push_url)), strict=True)
        settings = [*_read_credentials(folder, environ, is_foreign=user is not None), *filter(None, headers)]
        if git_user is not None:
            os.chown(home, *git_user)
        own = {**_build_git_env(environ), **({} if user is None else {"HOME": name})}
        repository = PrivateRepository(home, addresses[0], addresses[1], own, git_user)
        repository.run_git("init", "--quiet", "--bare", "--template=", ".")
        if git_user is None:
            _append_settings(home / "config", dict.fromkeys(settings))
            _append_settings(home / "config", _write_job_credentials(repository, environ))
        yield repository


def _build_git_env(environ: Mapping[str, str]) -> dict[str, str]:
    names = () if environ.get("GITHUB_ACTIONS") == "true" else _FROM_JOB
    given = {name: environ[name] for name in names if name in environ}
    if authority := environ.get("GIT_SSL_CAINFO") or environ.get("CI_SERVER_TLS_CA_FILE"):
        given["GIT_SSL_CAINFO"] = authority
    return {
        **build_agent_environment(environ, ()),
        **given,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ALLOW_PROTOCOL": _PROTOCOLS,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_DIR": ".",
        "LC_ALL": "C",
    }


def _read_credentials(folder: Path, environ: Mapping[str, str], *, is_foreign: bool) -> Iterator[Setting]:
    """Yield the git settings by which git connects to the remote and logs in.

    `is_foreign` is True if the agent runs as another user than the gate.

    - On GitHub, authorization headers are read from the checkout. Without a header, the job's token is used.
    - Elsewhere, if `is_foreign` is True, only these headers are read.
    - Elsewhere, if it is False, headers, proxy and certificates are read from the checkout, and the HTTP,
      credential and `insteadOf` settings from the configuration of the machine and of the user.
    """
    in_github = environ.get("GITHUB_ACTIONS") == "true"
    # On GitHub, the authorization headers of the checkout suffice. If the checkout has none, the job's token
    # is used (below). In other services, proxy and certificates are read, too, and the settings of machine
    # and user, which may name a credential helper. If `is_foreign`, the agent runs as another user than the
    # gate, so only headers are read.
    found = list(_read_settings(folder, _HEADERS if is_foreign or in_github else _CONNECTIONS, "--local"))
    yield from found
    if not is_foreign and not in_github:
        for where in ("--system", "--global"):
            yield from _read_settings(folder, _PERSONS, where)
    token = next(filter(None, map(environ.get, _GITHUB_TOKENS)), None)
    server = environ.get("GITHUB_SERVER_URL", "").rstrip("/")
    if in_github and token and server and not found:
        yield _build_authorization(f"{server}/", "x-access-token", token)


def _write_job_credentials(repository: PrivateRepository, environ: Mapping[str, str]) -> list[Setting]:
    """Write the token of GitLab's job to a file, and return the git settings that make git read the file.

    Write no file and return [] in other CI services, and if the user has a credential helper for the address.

    Raises:
        GitError: git cannot be run.
    """
    # GitLab's runner leaves neither a header nor a token in the address of `origin`. The login is given by a
    # helper, because git asks one only without these two. It is the only helper, because git tells all of
    # them the login that worked, and the user's helper would keep a token that ends with the job.
    token, server = environ.get("CI_JOB_TOKEN"), urlsplit(environ.get("CI_SERVER_URL", ""))
    if not token or not server.netloc:
        return []
    if repository.run_git("config", "--get-urlmatch", "credential.helper", repository.fetch_url, missing=1):
        return []
    file = repository.folder / "credentials"
    file.write_text(f"{server.scheme}://gitlab-ci-token:{quote(token, safe='')}@{server.netloc}\n", "utf-8")
    return [("credential.helper", f"store --file={shlex.quote(str(file))}")]


def _split_address(url: str, folder: Path) -> tuple[str, Setting | None]:
    """Split `url` into an address without a secret, and the git setting with its user name and password.

    The setting is None if `url` has no HTTP password or token; then a network address is unchanged. The path
    of a local repository is resolved against `folder`.
    """
    if not _NETWORK.match(url):
        return str(folder / url.removeprefix("file://")), None
    try:
        parts = urlsplit(url)
    except ValueError:
        return url, None
    user = unquote(parts.username or "")
    # Every user of the machine can read the arguments of a process, so no secret may stay in the address. A
    # plain user name stays, because git chooses settings and credential helpers by it.
    if parts.scheme not in {"http", "https"} or (parts.password is None and not _may_be_token(user)):
        return url, None
    host = parts.netloc.rpartition("@")[2]
    header = _build_authorization(f"{parts.scheme}://{host}/", user, unquote(parts.password or ""))
    return urlunsplit(parts._replace(netloc=host)), header


def _may_be_token(user: str) -> bool:
    """Return True if a user name may be a token: 20 ASCII characters or more, with a digit and no `@`."""
    return len(user) >= _SHORTEST_TOKEN and user.isascii() and "@" not in user and any(map(str.isdigit, user))


def _build_authorization(url: str, user: str, password: str) -> Setting:
    encoded = base64.b64encode(f"{user}:{password}".encode()).decode()
    return f"http.{url}.extraheader", f"AUTHORIZATION: basic {encoded}"


def _read_settings(folder: Path, pattern: str, where: str) -> Iterator[Setting]:
    """Yield the git settings with keys that match the regular expression `pattern`.

    `where` is the option of `git config` that chooses the file: `--local`, `--global` or `--system`.
    """
    person = where != "--local"
    text = run_git_bytes(
        folder, "config", where, "--includes", "-z", "--get-regexp", pattern, with_own_settings=person
    )
    for entry in filter(None, text.decode("utf-8", "replace").split("\0")):
        key, _, value = entry.partition("\n")
        yield key, value


def _append_settings(file: Path, settings: Iterable[Setting]) -> None:
    with file.open("a", encoding="utf-8") as stream:
        for key, value in settings:
            section, _, rest = key.partition(".")
            subsection, _, name = rest.rpartition(".")
            head = f"{section} {_quote_value(subsection)}" if subsection else section
            stream.write(f"[{head}]\n\t{name} = {_quote_value(value)}\n")


def _quote_value(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
