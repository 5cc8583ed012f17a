"""A baseline on a branch of its own, which holds nothing else: `branch:NAME` or `branch:NAME:FILE`.

It is written with git alone, so it works with every host. A push names the commit that it replaces, and the
host refuses it when another one came first: then everything is done again on top of that one. Neither the
work tree nor the index nor a local branch is touched.
"""

import os
import random
import re
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from evalgate.baseline import dump_baseline, load_baseline
from evalgate.errors import InvalidInput
from evalgate.frozen import frozen
from evalgate.model import Baseline
from evalgate.protocols import BaselinePlace
from evalgate.reading.jsontext import parse_json
from evalgate.system.checkout import SETTINGS
from evalgate.system.workspace import open_workspace

DEFAULT_FILE = "baseline.json"

_SHOWN_OF_COMMIT = 12
_ATTEMPTS = 30
_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 3.0
_GIT_TIMEOUT_S = 120
_NAME = re.compile(r"(?![-/.])(?!.*(?:\.\.|//|@\{|\.lock(?:/|$)))[\w./+@-]{1,200}(?<![/.])")
_RACES = (
    "rejected",
    "stale info",
    "cannot lock ref",
    "fetch first",
    "failed to update ref",
    "already exists",
)
_SETTINGS = tuple(word for setting in (*SETTINGS, "gc.auto=0") for word in ("-c", setting))
_WHO = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "evalgate"), ("EMAIL", "evalgate@users.noreply.github.com"))
}


class _GitFailed(Exception):
    """A command of git's failed; the text is what it said."""


def branch_baseline(what: str, place: BaselinePlace) -> "BaselineBranch":
    """The store that `branch:WHAT` names, in the repository that the workspace belongs to.

    Raises:
        InvalidInput: `what` is no name of a branch, or no name of a file.
    """
    branch, _, file = what.partition(":")
    file = file or DEFAULT_FILE
    if not _NAME.fullmatch(branch) or not _NAME.fullmatch(file):
        raise InvalidInput(f"branch:{what}: must be branch:NAME or branch:NAME:FILE")
    return BaselineBranch(place.folder, branch, file)


@frozen
class BaselineBranch:
    """The file `file` on the branch `branch` of the remote."""

    folder: Path
    branch: str
    file: str = DEFAULT_FILE
    remote: str = "origin"
    jitter: Callable[[], float] = field(default=random.random, compare=False)

    @property
    def shown_as(self) -> str:
        """How reports name it."""
        return f"branch:{self.branch}:{self.file}"

    def read(self) -> Baseline | None:
        """The newest baseline on the branch, or None when there is none yet."""
        try:
            return self._read(self._fetch())
        except _GitFailed as error:
            raise InvalidInput(f"{self.shown_as}: the baseline cannot be read: {error}") from None

    def update(self, change: Callable[[Baseline | None], Baseline]) -> Baseline:
        """Read, change and push, again and again until nobody else was faster.

        Raises:
            OSError: it cannot be pushed.
        """
        pause, said = _PAUSE_S, ""
        for _ in range(_ATTEMPTS):
            try:
                tip = self._fetch()
                before = self._read(tip)
                after = change(before)
                if after != before:
                    known, tip = tip, self._commit(tip, dump_baseline(after))
                    self._push(tip, known)
                return self._as_of(tip, after)
            except _GitFailed as error:
                said = str(error)
                if not any(word in said for word in _RACES):
                    break
            time.sleep(pause * (0.5 + self.jitter()))
            pause = min(1.5 * pause, _LONGEST_PAUSE_S)
        raise OSError(f"git could not push it: {said}")

    def _fetch(self) -> str:
        """The commit that the branch is at, with what it holds; "" when there is no such branch."""
        listed = self._git("ls-remote", "--exit-code", self.remote, f"refs/heads/{self.branch}", missing=2)
        tip = listed.split()[0] if listed else ""
        if tip:
            self._git("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--depth=1", self.remote, tip)
        return tip

    def _read(self, tip: str) -> Baseline | None:
        if not tip or not self._git("ls-tree", tip, "--", self.file):
            return None
        document = parse_json(self._git("cat-file", "blob", f"{tip}:{self.file}").encode(), self.shown_as)
        return self._as_of(tip, load_baseline(document))

    def _as_of(self, tip: str, baseline: Baseline) -> Baseline:
        return replace(baseline, path=self.shown_as, version=f"commit {tip[:_SHOWN_OF_COMMIT]}")

    def _commit(self, tip: str, text: str) -> str:
        """A commit on top of `tip` in which the file holds `text`, and the others are as they were."""
        blob = self._git("hash-object", "-w", "--stdin", stdin=text).strip()
        index = {"GIT_INDEX_FILE": f"{self._git('rev-parse', '--absolute-git-dir').strip()}/evalgate-{blob}"}
        try:
            self._git("read-tree", tip or "--empty", env=index)
            self._git("update-index", "--add", "--cacheinfo", f"100644,{blob},{self.file}", env=index)
            tree = self._git("write-tree", env=index).strip()
        finally:
            Path(index["GIT_INDEX_FILE"]).unlink(missing_ok=True)
        parent = ("-p", tip) if tip else ()
        return self._git("commit-tree", tree, *parent, "-m", f"Baseline {self.file}", env=_WHO).strip()

    def _push(self, commit: str, tip: str) -> None:
        name = f"refs/heads/{self.branch}"
        self._git("push", "--quiet", f"--force-with-lease={name}:{tip}", self.remote, f"{commit}:{name}")

    def _git(
        self, *arguments: str, stdin: str = "", env: Mapping[str, str] | None = None, missing: int = 0
    ) -> str:
        """What git prints; "" for the exit code `missing`, which says that something is not there."""
        command: Sequence[str] = ("git", *_SETTINGS, *arguments)
        try:
            uid, gid = open_workspace(self.folder).owner or (None, None)
            done = subprocess.run(
                command,
                cwd=self.folder,
                env={**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", **(env or {})},
                user=uid,  # whom its objects must belong to
                group=gid,
                extra_groups=None if uid is None else (),
                input=stdin,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=_GIT_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _GitFailed(f"git cannot be run ({type(error).__name__})") from None
        if done.returncode and done.returncode == missing:
            return ""
        if done.returncode:
            raise _GitFailed(" ".join(done.stderr.split()) or f"exit code {done.returncode}")
        return done.stdout
