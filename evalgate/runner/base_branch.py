"""Read the gate's own rules from the base branch, so that a change cannot weaken the rules for itself.

The rules are the thresholds files with their tool mocks, the baseline (`baseline_stores.py`), prompts,
judges' anchors (responses with labels), personas, and the code of custom metrics (`metric_code.py`).
`gating.quarantine` handles the quarantine file. The agent and the eval sets, with their tool mocks and final
states, are read from the change itself. A notice lists the eval sets that the change edits.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

from evalgate.config.loader import DEFAULT_NAMES, OUR_TABLE, find_thresholds_file, load_thresholds
from evalgate.config.schema.thresholds import DEFAULT_CONFIG, Thresholds
from evalgate.core.errors import InvalidInputError
from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.system import git
from evalgate.system.files import is_taken
from evalgate.system.pull_requests import (
    describe_base_fetch,
    describe_unmerged_change,
    find_base_commit,
    is_known_service,
)

if TYPE_CHECKING:
    from evalgate.system.committed_files import CommittedFiles

Policy: TypeAlias = Literal["base", "head"]
"""`base`: the rules of the base branch apply; `head`: the checked-out rules apply."""

_OWN_RULES = (
    "The change is gated by its own thresholds, baseline, prompts and code of metrics, not by those of the "
    "branch that it goes to: `--policy head`."
)
_SHOWN_PATHS = 6
# `--ignore-submodules` keeps git from reading .gitmodules: if the change's file is malformed, git would fail
# and hide the change's edits.
_LIST_CHANGES = ("diff", "--name-only", "--ignore-submodules=dirty")
_PATHS_AT_ONCE = 200
"""Maximum number of paths in the arguments of one process. Linux limits all arguments to 2 MB."""


@frozen
class BaseVersion:
    """Base branch's version of a file: a copy of it, or the information that there is none to use.

    Without a copy, the caller uses the checked-out file: the rules of the base branch do not apply, git does
    not know the base branch's commit, or the branch lacks the file. But if `is_missing_on_base` is True, the
    caller decides: most rules are then read from the checked-out file, while a baseline counts as missing.
    """

    copy: Path | None = None
    """Path of a copy of the base branch's file; None if there is no copy."""
    is_missing_on_base: bool = False
    """True if git tracks the checked-out file, and the base branch lacks it, so that it is new."""


@dataclass
class RuleFiles:
    """Chooser between the base branch's and the checked-out version of each file with rules.

    Use it as a context manager while a plan is made. The end of the `with` block removes the copies of the
    base branch's files, so paths that `choose_version` returned may no longer exist.
    """

    folder: Path
    environ: Mapping[str, str]
    policy: Policy | None = None
    """Value of `--policy`: `base` for the base branch's rules, `head` for the checked-out rules. None means
    `base` if an unmerged change is tested and git knows its target branch; otherwise None means `head`."""
    _unverified: list[str] = field(default_factory=list)
    """Files that were read from the change itself, because git does not know the base branch."""
    _notices: list[str] = field(default_factory=list)
    """Notices about files that the change edits or adds, without repeats."""
    paths: set[str] = field(default_factory=set)
    """Paths of all rule files that were looked for, found or not, relative to `folder`."""
    _copies: TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        """Return self; with `--policy base`, first check that variables of a known CI service are set.

        Without these variables it is unknown whether a pull request is tested.

        Raises:
            InvalidInputError: `--policy base` is given, and no variable of a known CI service is set.
        """
        if self.policy == "base" and not (
            describe_unmerged_change(self.environ) or is_known_service(self.environ)
        ):
            raise InvalidInputError(
                "--policy base: no variable of a CI service says here whether a pull request is tested, and "
                "what it goes to. In a container give it those of the job: docs/ci.md lists them."
            )
        return self

    def __exit__(self, *exc: object) -> None:
        if self._copies is not None:
            self._copies.cleanup()

    @property
    def notices(self) -> tuple[str, ...]:
        """Return notices about the rules, in whole sentences."""
        files = list(dict.fromkeys(self._unverified))
        if self.policy == "head" and describe_unmerged_change(self.environ):
            return (_OWN_RULES,)  # this notice covers every file
        if not files:
            return tuple(self._notices)
        were, them = ("were", "them") if len(files) > 1 else ("was", "it")
        unverified = (
            f"{', '.join(files)} {were} read as the change has {them}, for git does not know here what the "
            f"change is merged into. {describe_base_fetch(self.environ)}"
        )
        return (unverified, *self._notices)

    @cached_property
    def applies_base_rules(self) -> bool:
        """Return True if an unmerged change (a pull request) is tested, and the policy is not `head`."""
        return self.policy != "head" and bool(describe_unmerged_change(self.environ))

    @cached_property
    def base_commit(self) -> str:
        """Return the base branch's commit; "" if the branch's rules do not apply, or git does not know it."""
        return find_base_commit(self.folder, self.environ) if self.applies_base_rules else ""

    @cached_property
    def committed_files(self) -> "CommittedFiles":
        """Return the files of the base branch's commit; `base_commit` must not be "".

        Raises:
            InvalidInputError: git cannot read the commit.
        """
        from evalgate.system.committed_files import CommittedFiles

        return CommittedFiles(self.folder, self.base_commit)

    @cached_property
    def _common_commits(self) -> Sequence[str]:
        """Return the commits at which the change branched off the base branch; () if git cannot tell."""
        from evalgate.system.changed_files import UnknownChangeError, find_common_commits

        with suppress(UnknownChangeError, git.GitError):
            return find_common_commits(self.folder, self.base_commit)
        return ()

    @property
    def lacks_base_commit(self) -> bool:
        """Return True if the base branch's rules apply, but git does not know the branch's commit."""
        return self.applies_base_rules and not self.base_commit

    def find_target_commit(self) -> str:
        """Return the commit of the pull request's target branch, also with `--policy head`.

        Return "" if git does not know the commit, or if no pull request is tested.
        """
        return find_base_commit(self.folder, self.environ)

    def describe_fetch(self) -> str:
        """Return a sentence that tells the user how to fetch the target branch's commit."""
        return describe_base_fetch(self.environ)

    def has_file(self, path: Path) -> bool:
        """Return True if `path` exists in the working folder or is a file on the base branch.

        The base branch counts only if its rules apply. In the working folder, a folder or a broken link at
        `path` counts as well, so that the caller tries to read it, which raises an error.

        Raises:
            InvalidInputError: git cannot read the file of the base branch.
        """
        return is_taken(self.folder / path) or self.has_base_file(path)

    def has_base_file(self, path: Path) -> bool:
        """Return True if the base branch's rules apply and the branch has a non-empty file at `path`.

        Raises:
            InvalidInputError: git cannot read the file.
        """
        return bool(
            self.base_commit and git.read_blob(self.folder, self.base_commit, self.format_relative_path(path))
        )

    def note_unverified(self, path: str) -> None:
        """Add a file to the notice that lists the files that were read from the change itself.

        Call this after such a read, if git does not know the base branch's commit.
        """
        self._unverified.append(path)

    def find_default_file(self) -> Path | None:
        """Return the path of the first thresholds file with a name in `DEFAULT_NAMES`; None without a file.

        The base branch is searched before the folder, because a change could add a file with an earlier name.

        Raises:
            InvalidInputError: git cannot read a file of the base branch.
        """
        return self.find_default_base_file() or find_thresholds_file(self.folder)

    def find_default_base_file(self) -> Path | None:
        """Return the path of the base branch's thresholds file, as a path in the working folder.

        Return None if the branch has no such file, or if its rules do not apply.

        Raises:
            InvalidInputError: git cannot read a file of the base branch.
        """
        for name in DEFAULT_NAMES if self.base_commit else ():
            then = git.read_blob(self.folder, self.base_commit, name)
            if then and (name != "pyproject.toml" or OUR_TABLE.encode() in then):
                return self.folder / name
        return None

    def load_version(self, path: Path, shown_as: str) -> Thresholds:
        """Read a thresholds file: the base branch's version if its rules apply, else the checked-out file.

        `shown_as` is the name of the file in messages.

        Raises:
            InvalidInputError: the file has a problem, or cannot be read from the folder or the base branch.
        """
        return replace(load_thresholds(self.choose_version(path), shown_as), folder=path.parent)

    def load_chosen_thresholds(self, thresholds_file: str | None) -> Thresholds:
        """Read the thresholds file that the user named, or else the file in the working folder.

        If `thresholds_file` is None and the folder has no file, return the defaults. `thresholds_file` may
        also be a folder with one file of criteria for each eval set, as in tRPC-Agent-Go. These criteria
        replace the criteria of the thresholds file in the working folder. All other sections of that file
        still apply.

        Raises:
            InvalidInputError: the file has a problem, or cannot be read from the folder or the base branch.
        """
        if thresholds_file is not None and self._is_folder(thresholds_file):
            own = self.load_chosen_thresholds(None)
            return replace(own, criteria=own.checks_and_budgets, criteria_folder=thresholds_file)
        if thresholds_file is not None:
            return self.load_version(self.folder / thresholds_file, thresholds_file)
        found = self.find_default_file()
        if found is not None:
            return self.load_version(found, self.format_relative_path(found))
        return Thresholds(DEFAULT_CONFIG, self.folder)

    def _is_folder(self, path: str) -> bool:
        """Return True if `path` is a folder on the base branch.

        If the branch has nothing at `path`, or its rules do not apply, the working folder decides.
        """
        if self.base_commit and git.has_folder(self.folder, self.base_commit, path):
            return True
        return (self.folder / path).is_dir() and not self.has_base_file(Path(path))

    def choose_version(self, path: Path) -> Path:
        """Return the path to read for a file with rules: `path` itself, or a copy of the base branch's file.

        Return `path` if the base branch's rules do not apply, if git does not know its commit, or if the
        branch lacks the file. An empty file counts as no file. A notice is added if the change edits the
        file, or if git tracks a file that the branch lacks. The copy exists until the end of the `with`
        block.

        Raises:
            InvalidInputError: `--policy base` is given and git does not know the base commit; git cannot
                read the file; or the copy cannot be written.
        """
        self.paths.add(self.format_relative_path(path))
        version = self.copy_base_version(path)
        if version.copy is not None:
            return version.copy
        if version.is_missing_on_base and path.is_file():
            shown = self.format_relative_path(path)
            self.add_notice(
                f"{shown} is new in this change: the base branch has none, so the change's own holds."
            )
        return path

    def format_relative_path(self, path: Path) -> str:
        """Return `path` relative to the working folder, as messages show it."""
        return os.path.relpath(self.folder / path, self.folder)

    def list_changed_files(self, *paths: str, options: Sequence[str] = ()) -> list[str]:
        """Return the tracked files at the pathspecs `paths` that differ from the base branch's commit.

        This includes files that only the base branch has changed. Return [] without pathspecs, if the base
        branch's rules do not apply, if git does not know the base commit, or if git fails. `options` are
        options of `git diff`. Without options, all files of a submodule count as changed if the submodule's
        commit differs.
        """
        with suppress(git.GitError):
            return self._list_changes(self.base_commit, paths, options) if self.base_commit else []
        return []

    def list_outdated_files(self, *paths: str, options: Sequence[str] = ()) -> list[str]:
        """Return the tracked files at the pathspecs `paths` that only the base branch has changed.

        The change still has these files as they were when it branched off. Return [] if git cannot tell.
        `options` are options of `git diff`.
        """
        changed, commits = self.list_changed_files(*paths, options=options), self._common_commits
        # Without this, a failure of git would make the change's own edits look like those of the base branch.
        with suppress(git.GitError):
            own = [each for commit in commits for each in self._list_changes(commit, paths, options)]
            return [each for each in changed if each not in own] if commits else []
        return []

    def _list_changes(self, commit: str, paths: Sequence[str], options: Sequence[str]) -> list[str]:
        """Return the tracked files at the pathspecs `paths` that differ from the files of a commit.

        Raises:
            GitError: git fails.
        """
        if not paths:
            return []
        top = Path(git.run_git(self.folder, "rev-parse", "--show-toplevel"))
        changed = b"".join(
            git.execute_git(self.folder, *_LIST_CHANGES, "-z", *options, commit, "--", *some)
            for some in (paths[at : at + _PATHS_AT_ONCE] for at in range(0, len(paths), _PATHS_AT_ONCE))
        )
        moved = () if options else git.list_files_of_moved_submodules(self.folder, commit, paths)
        names = (*os.fsdecode(changed).split("\0"), *moved)
        return [self.format_relative_path(top / name) for name in names if name]

    def copy_base_version(self, path: Path) -> BaseVersion:
        """Copy the base branch's version of a file to a temporary folder, and return the copy.

        The result has no copy if the branch's rules do not apply, if git does not know its commit, or if the
        branch lacks the file. If the change edits the file, a notice is added. `path` is absolute or relative
        to the working folder.

        Raises:
            InvalidInputError: `--policy base` is given and git does not know the base commit; git cannot
                read the file; or the copy cannot be written.
        """
        if not self.applies_base_rules:
            return BaseVersion()
        shown = self.format_relative_path(path)
        if not self.base_commit:
            self.handle_missing_base(shown)
            return BaseVersion()
        then = git.read_blob(self.folder, self.base_commit, shown)
        if not then:
            steps = iter_link_steps(self.folder, shown)
            return BaseVersion(is_missing_on_base=any(git.is_tracked(self.folder, each) for each in steps))
        from evalgate.runner.edit_notices import describe_edit

        if edit := describe_edit(self.folder, shown, then, self.read_common_versions(shown)):
            self.add_notice(edit)
        return BaseVersion(self._copy_content(shown, then))

    def read_common_versions(self, path: str) -> Sequence[bytes]:
        """Return a file's content in each commit at which the change branched off; () if git cannot tell.

        `path` is relative to `folder`. The content of a missing file is b"".
        """
        with suppress(InvalidInputError):
            return [git.read_blob(self.folder, each, path) for each in self._common_commits]
        return ()

    def _copy_content(self, shown: str, content: bytes) -> Path:
        try:
            self._copies = self._copies or TemporaryDirectory(prefix="evalgate-base-")
            copy = Path(self._copies.name, hashlib.sha256(os.fsencode(shown)).hexdigest(), Path(shown).name)
            copy.parent.mkdir(exist_ok=True)
            copy.write_bytes(content)
        except OSError as error:
            raise InvalidInputError(
                f"{shown}: its version of the base branch cannot be kept: {error}"
            ) from None
        return copy

    def handle_missing_base(self, path: str) -> None:
        """Add the file `path` to the notice about files that are read from the change itself.

        Call this if git does not know the base commit.

        Raises:
            InvalidInputError: `--policy base` is given.
        """
        if self.policy == "base":
            why = "git does not know here what the change is merged into"
            raise InvalidInputError(f"--policy base: {why}. {describe_base_fetch(self.environ)}")
        self.note_unverified(path)

    def add_notice(self, notice: str) -> None:
        """Add a whole sentence to `notices`, unless they contain it already."""
        self._notices += [notice] if notice not in self._notices else []


def iter_link_steps(folder: Path, path: str) -> Iterator[str]:
    """Yield `path`, then each link that it leads through, then the final path with all links resolved.

    All paths are relative to `folder`. The file need not exist. Callers need the links because an edit of any
    of them could make `path` lead to another file.
    """
    from evalgate.agents.host.opened_files import follow_links

    folder = Path(os.path.realpath(folder))
    yield Path(os.path.normpath(path)).as_posix()
    for each in follow_links(str(folder / path)):
        yield Path(os.path.relpath(each, folder)).as_posix()


def format_paths(paths: Sequence[str]) -> str:
    """Return paths as a list for a sentence: the first six, separated by commas, then `and 3 files more`."""
    more = len(paths) - _SHOWN_PATHS
    return ", ".join(paths[:_SHOWN_PATHS]) + (f" and {pluralize(more, 'file')} more" if more > 0 else "")
