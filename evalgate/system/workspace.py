"""The folder that evalgate works in, its owner, and the environment that an agent gets."""

import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from evalgate.core.errors import InvalidInputError
from evalgate.core.frozen import frozen
from evalgate.system.isolation import choose_agent_user, find_reachable_sockets

_PERSON = ("HOME", "USER", "LOGNAME", "SHELL", "TERM", "TZ", "TMPDIR", "TEMP", "TMP", "CI")
_LANGUAGE = ("LANG", "LANGUAGE", "LC_*")
# LD_LIBRARY_PATH: interpreters outside the system's folders (actions/setup-python) do not start without it.
_PROGRAMS = ("PATH", "PYTHONPATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "NODE_PATH")
_CERTIFICATES = (
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
)
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_ALLOWED = (
    *_PERSON,
    *_LANGUAGE,
    *_PROGRAMS,
    *_CERTIFICATES,
    *_PROXIES,
    *(name.lower() for name in _PROXIES),
)


class _NamePatterns:
    """Names of variables; a trailing `*` matches any ending."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self.exact = frozenset(patterns)
        self._prefixes = tuple(pattern[:-1] for pattern in self.exact if pattern.endswith("*"))

    def __contains__(self, name: str) -> bool:
        return name in self.exact or name.startswith(self._prefixes)


# A process with these can act as the workflow: write its outputs, read its inputs, take its identity.
_NEVER = _NamePatterns(
    (
        "GITHUB_OUTPUT",
        "GITHUB_ENV",
        "GITHUB_PATH",
        "GITHUB_STATE",
        "GITHUB_STEP_SUMMARY",
        "ACTIONS_*",
        "INPUT_*",
    )
)
_ONLY_BY_EXACT_NAME = _NamePatterns(("GITHUB_TOKEN", "GH_TOKEN", "RUNNER_*"))


def build_agent_environment(source: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return the variables of `source` that the agent gets: those in the allow-list and in `names`.

    In `names` a trailing `*` matches any ending, but GITHUB_TOKEN, GH_TOKEN and RUNNER_* must be named
    exactly. Variables that let a process act as the workflow, such as GITHUB_OUTPUT, ACTIONS_* and INPUT_*,
    are never returned.
    """
    patterns = _NamePatterns((*_ALLOWED, *names))
    return {name: source[name] for name in sorted(source) if _is_given(name, patterns)}


def list_withheld_variables(source: Mapping[str, str], names: Iterable[str]) -> frozenset[str]:
    """Return the names in `source` that the agent does not get, but would get if `names` listed them."""
    given = build_agent_environment(source, names)
    return frozenset(name for name in source if name not in given and name not in _NEVER)


def list_environment_notices(source: Mapping[str, str], names: Iterable[str]) -> tuple[str, ...]:
    """Return one sentence for each of `names` that gives the agent no variable."""
    notices = []
    for pattern in names:
        wanted = _NamePatterns([pattern])
        if any(name in wanted for name in build_agent_environment(source, [pattern])):
            continue
        withheld = [name for name in source if name in wanted]
        exact = sorted(name for name in withheld if name in _ONLY_BY_EXACT_NAME)
        if exact:
            notices.append(
                f"the environment variables {pattern} are given to the agent only by their exact names, such "
                f"as {exact[0]}"
            )
        elif withheld or pattern in _NEVER:
            notices.append(f"the environment variable {pattern} is never given to the agent")
        else:
            notices.append(f"the environment variable {pattern}, wanted for the agent, is not set")
    return tuple(notices)


def _is_given(name: str, patterns: _NamePatterns) -> bool:
    if name in _NEVER:
        return False
    return name in (patterns.exact if name in _ONLY_BY_EXACT_NAME else patterns)


@frozen
class Workspace:
    """A folder, and the user that files written there must belong to."""

    folder: Path
    owner: tuple[int, int] | None = None
    """uid and gid of the folder's owner if the gate is root and the folder is not root's; else None.

    In a container action the gate is root, but the workspace is the runner's: files left behind as root
    break the next checkout, and an agent that runs as root could read the gate's own environment.
    """

    @property
    def agent_user(self) -> tuple[int, int] | None:
        """Return the uid and gid that the agent and its commands run as; None: those of the gate.

        Both are the owner's, but the group is replaced if a container engine's socket belongs to it.
        """
        return None if self.owner is None else choose_agent_user(self.owner, os.environ)

    def format_path(self, path: Path) -> str:
        """Return `path` relative to the folder if it lies inside, else unchanged."""
        absolute = self.folder / path
        return os.path.relpath(absolute, self.folder) if absolute.is_relative_to(self.folder) else str(path)

    def choose_home(self, environ: Mapping[str, str]) -> Path:
        """Return the `HOME` of `environ` if it belongs to the agent's user, else a new temporary folder.

        Nothing removes the temporary folder.
        """
        home = environ.get("HOME", "")
        uid = self.owner[0] if self.owner else os.geteuid()
        if home and _has_owner(Path(home), uid):
            return Path(home)
        own = Path(tempfile.mkdtemp(prefix="evalgate-home-"))
        if self.owner:
            os.chown(own, *self.owner)
        return own


def open_workspace(folder: Path) -> Workspace:
    """Return the workspace at `folder`, with its owner if the gate is root and the folder is not root's.

    Raises:
        OSError: there is no such folder, or it may not be entered.
    """
    folder = folder.resolve(strict=True)
    if not folder.is_dir():
        raise NotADirectoryError(str(folder))
    stat = folder.stat()
    foreign = os.geteuid() == 0 and stat.st_uid != 0
    return Workspace(folder, (stat.st_uid, stat.st_gid) if foreign else None)


def resolve_workspace(folder: Path) -> Workspace:
    """Return the workspace that a user named.

    Raises:
        InvalidInputError: there is no such folder, or it may not be entered.
    """
    try:
        return open_workspace(folder)
    except OSError as error:
        raise InvalidInputError(f"{folder}: cannot work there: {error.strerror or 'not a folder'}") from None


def list_socket_notices(workspace: Workspace) -> tuple[str, ...]:
    """Return a sentence if the agent can open a container engine's socket as another user than the gate.

    Return () if the agent cannot, or has the gate's own user.
    """
    user = workspace.agent_user
    paths = find_reachable_sockets(user, os.environ) if user else ()
    if not paths:
        return ()
    sentence = (
        f"The agent can open {', '.join(paths)}: the file is open to every user, or belongs to the owner of "
        "the workspace. Whoever can open it controls the container engine, and so every secret of this job."
    )
    return (sentence,)


def has_working_folder() -> bool:
    """Return True if the current folder still exists."""
    try:
        Path.cwd()
    except OSError:
        return False
    return True


def _has_owner(folder: Path, uid: int) -> bool:
    try:
        return folder.stat().st_uid == uid and folder.is_dir()
    except OSError:
        return False
