"""Store a baseline on a branch that holds nothing else: `branch:NAME` or `branch:NAME:FILE`.

The branch is written with git alone, so the store works with every host. Each push names the commit that it
replaces. The host refuses the push if another job pushed first; then the update is repeated on top of the
newer commit. Git runs in a private repository, because the agent can change the workspace's repository.
"""

import os
import random
import re
import time
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import field, replace
from datetime import UTC, datetime
from pathlib import Path

from evalgate.baselines.serialization import dump_baseline, load_baseline
from evalgate.core.errors import InvalidInputError
from evalgate.core.frozen import frozen
from evalgate.core.protocols import StoreContext
from evalgate.core.types import Baseline
from evalgate.documents.strict_json import parse_json
from evalgate.system.git import GitError
from evalgate.system.private_git import PrivateRepository, open_private_repository

DEFAULT_FILE = "baseline.json"

_SHOWN_OF_COMMIT = 12
_LATER_SAVES = 20  # number of saves after a commit that are searched for a gate run of this commit
_ATTEMPTS = 30
_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 3.0
_NAME = re.compile(r"(?![-/.])(?!.*(?:\.\.|//|@\{|\.lock(?:/|$)))[\w./+@-]{1,200}(?<![/.])")
_RACES = (
    "rejected",
    "stale info",
    "cannot lock ref",
    "fetch first",
    "failed to update ref",
    "already exists",
)
_WHO = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "evalgate"), ("EMAIL", "evalgate@users.noreply.github.com"))
}


def build_branch_store(name: str, context: StoreContext) -> "BranchStore":
    """Build the store for `name`, the part after `branch:`: NAME or NAME:FILE.

    Raises:
        InvalidInputError: `name` is no name of a branch, or no name of a file.
    """
    branch, _, file = name.partition(":")
    file = file or DEFAULT_FILE
    if not _NAME.fullmatch(branch) or not _NAME.fullmatch(file):
        raise InvalidInputError(f"branch:{name}: must be branch:NAME or branch:NAME:FILE")
    return BranchStore(context.folder, branch, file)


@frozen
class BranchStore:
    """Baseline store in the file `file` on the branch `branch` of the remote."""

    folder: Path
    branch: str
    file: str = DEFAULT_FILE
    remote: str = "origin"
    jitter: Callable[[], float] = field(default=random.random, compare=False)

    @property
    def shown_as(self) -> str:
        """Return the name of the store in reports, `branch:NAME:FILE`."""
        return f"branch:{self.branch}:{self.file}"

    def read(self) -> Baseline | None:
        """Read the newest baseline on the branch; return None if the branch or the file does not exist.

        Raises:
            InvalidInputError: git cannot fetch the branch, or the file on it is not a baseline.
        """
        try:
            with self._open_repository() as repository:
                return self._read_baseline(repository, self._fetch_tip(repository))
        except GitError as error:
            raise InvalidInputError(f"{self.shown_as}: the baseline cannot be read: {error}") from None

    def read_past(
        self,
        when: str,
        time: datetime | None,
        find_commit: Callable[[PrivateRepository, Collection[str]], tuple[str, int]],
    ) -> Baseline:
        """Read an older baseline: as it was at `time`, or at the save or commit that `find_commit` returns.

        A save is a commit on the baseline's branch. With a `time`, read the last save until then. Otherwise,
        read the save that `find_commit` returns. If it returns a commit of the agent, read the first of the
        20 saves after this commit that has a gate run of it; else read the last save before the commit.

        Args:
            when: The date, save or commit that the user named, for error messages.
            time: Last moment that counts; None: `find_commit` decides.
            find_commit: Function that gets the hashes of all saves, the newest first, and returns hash and
                time (Unix seconds) of a save or of a commit of the agent.

        Raises:
            GitError: git cannot fetch the branch.
            InvalidInputError: there is no such baseline, or it is damaged, or `find_commit` raised this.
        """
        with self._open_repository() as repository:
            states = self._list_saves(repository)
            saves = [commit for commit, _ in states]
            named, latest = ("", int(time.timestamp())) if time else find_commit(repository, saves)
            chosen = [named] if named in saves else []
            if named and not chosen:
                later = [commit for commit, seconds in reversed(states) if seconds >= latest][:_LATER_SAVES]
                chosen = [
                    commit
                    for commit in later
                    if (found := self._read_baseline(repository, commit)) is not None
                    and any(source.commit == named for source in found.sources)
                ]
            chosen = chosen or [commit for commit, seconds in states if seconds <= latest]
            baseline = self._read_baseline(repository, chosen[0]) if chosen else None
        if baseline is None:
            oldest = (
                f"; its oldest is of {datetime.fromtimestamp(states[-1][1], UTC):%Y-%m-%d}" if states else ""
            )
            raise InvalidInputError(
                f"gate.anchor: {self.shown_as} holds no baseline of {when} or before{oldest}."
            )
        return baseline

    def _list_saves(self, repository: PrivateRepository) -> list[tuple[str, int]]:
        """Fetch the whole branch. Return hash and time (Unix seconds) of each commit of the baseline's file.

        The newest commit is first. Return [] if the remote lacks the branch.
        """
        tip = self._fetch_tip(repository, whole=True)
        if not tip:
            return []
        log = repository.run_git("log", "--first-parent", "--format=%H %ct", tip, "--", self.file)
        return [(commit, int(seconds)) for commit, seconds in map(str.split, log.splitlines())]

    def update(self, change: Callable[[Baseline | None], Baseline]) -> Baseline:
        """Push the result of `change` to the branch if it differs from the old baseline; return the result.

        If another job pushes first, the baseline is read, changed and pushed again, in at most 30 attempts.

        Raises:
            InvalidInputError: the file on the branch is not a baseline.
            OSError: the branch cannot be fetched, or the baseline cannot be pushed.
        """
        try:
            with self._open_repository() as repository:
                return self._update_with_retries(repository, change)
        except GitError as error:
            raise OSError(f"git could not push it: {error}") from None

    def _open_repository(self) -> AbstractContextManager[PrivateRepository]:
        return open_private_repository(self.folder, self.remote, os.environ)

    def _update_with_retries(
        self, repository: PrivateRepository, change: Callable[[Baseline | None], Baseline]
    ) -> Baseline:
        pause, lost = _PAUSE_S, GitError()
        for _ in range(_ATTEMPTS):
            try:
                tip = self._fetch_tip(repository)
                before = self._read_baseline(repository, tip)
                after = change(before)
                if after != before:
                    known, tip = tip, self._commit_file(repository, tip, dump_baseline(after))
                    self._push_commit(repository, tip, known)
                return self._set_version(tip, after)
            except GitError as error:
                if not any(word in str(error) for word in _RACES):
                    raise
                lost = error
            # Random, so that jobs which lost the same race do not meet again at the next attempt.
            time.sleep(pause * (0.5 + self.jitter()))
            pause = min(1.5 * pause, _LONGEST_PAUSE_S)
        raise lost

    def _fetch_tip(self, repository: PrivateRepository, *, whole: bool = False) -> str:
        """Fetch the newest commit of the branch, and return its hash; "" if the remote lacks the branch.

        If `whole` is True, the older commits of the branch are fetched, too.
        """
        listed = repository.run_git(
            "ls-remote", "--exit-code", repository.fetch_url, f"refs/heads/{self.branch}", missing=2
        )
        tip = listed.split()[0] if listed else ""
        if tip:
            repository.run_git(
                "fetch",
                "--quiet",
                "--no-tags",
                "--no-write-fetch-head",
                *(() if whole else ("--depth=1",)),
                repository.fetch_url,
                tip,
            )
        return tip

    def _read_baseline(self, repository: PrivateRepository, tip: str) -> Baseline | None:
        if not tip or not repository.run_git("ls-tree", tip, "--", self.file):
            return None
        document = parse_json(
            repository.run_git("cat-file", "blob", f"{tip}:{self.file}").encode(), self.shown_as
        )
        return self._set_version(tip, load_baseline(document))

    def _set_version(self, tip: str, baseline: Baseline) -> Baseline:
        return replace(baseline, path=self.shown_as, version=f"commit {tip[:_SHOWN_OF_COMMIT]}")

    def _commit_file(self, repository: PrivateRepository, tip: str, text: str) -> str:
        """Commit `text` as the store's file on top of the commit `tip`, and return the new commit's hash.

        Other files stay as they are. If `tip` is "", the new commit has no parent.
        """
        # Git's low-level commands need no work tree, so that nothing of the branch is checked out.
        blob = repository.run_git("hash-object", "-w", "--stdin", stdin=text).strip()
        index = {"GIT_INDEX_FILE": f"{repository.folder}/index-{blob}"}
        try:
            repository.run_git("read-tree", tip or "--empty", env=index)
            repository.run_git(
                "update-index", "--add", "--cacheinfo", f"100644,{blob},{self.file}", env=index
            )
            tree = repository.run_git("write-tree", env=index).strip()
        finally:
            Path(index["GIT_INDEX_FILE"]).unlink(missing_ok=True)
        parent = ("-p", tip) if tip else ()
        return repository.run_git(
            "commit-tree", tree, *parent, "-m", f"Baseline {self.file}", env=_WHO
        ).strip()

    def _push_commit(self, repository: PrivateRepository, commit: str, tip: str) -> None:
        name = f"refs/heads/{self.branch}"
        # `--force-with-lease` makes the host refuse the push if another job pushed in between.
        repository.run_git(
            "push", "--quiet", f"--force-with-lease={name}:{tip}", repository.push_url, f"{commit}:{name}"
        )
