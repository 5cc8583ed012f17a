"""The source of control runs (runs of the base commit's agent): the base commit, or its deployment."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from evalgate.config.cli_overrides import Overrides
from evalgate.config.schema.gate import ControlConfig
from evalgate.config.schema.thresholds import Config, Thresholds
from evalgate.core.errors import EvalgateError, InvalidInputError, Problem
from evalgate.core.frozen import frozen
from evalgate.system import git
from evalgate.system.pull_requests import (
    describe_base_fetch,
    describe_unmerged_change,
    find_base_commit,
    is_known_service,
    read_pull_request,
)


class ControlUnavailableError(EvalgateError):
    """Error if control runs are not possible. The message is the reason, as the end of a sentence."""


@frozen
class ControlSource:
    """Commit or deployment of the control (the base commit's agent), with the settings of its runs."""

    config: ControlConfig
    overrides: Overrides
    """Options of the command line, which apply to the base commit's agent as well."""
    is_object: bool = False
    """True if the agent is an object that the calling Python program passed. It cannot be loaded from another
    commit."""
    commit: str = ""
    """Full hash of the base commit; "" if there is none to use: `problem` then states the reason. The hash is
    looked up before any code of the change runs, because this code could move branches and tags."""
    problem: str = ""

    @property
    def mode(self) -> Literal["suspects", "all"]:
        """Return `suspects` if only cases that seem to regress get control runs, else `all`."""
        return "all" if self.config.mode == "all" else "suspects"

    def get_commit(self) -> str:
        """Return the full hash of the base commit.

        Raises:
            ControlUnavailableError: the settings name no commit, git does not know the commit, or it is the
                tested commit.
        """
        if not self.commit:
            raise ControlUnavailableError(self.problem)
        return self.commit

    def describe_base(self, environ: Mapping[str, str]) -> str:
        """Return the name of the base for sentences: the value of `--control`, or the target branch.

        Return `the base branch` if neither is known.
        """
        request = read_pull_request(environ)
        return self.overrides.control or (request.branch if request else "") or "the base branch"


def build_control_source(
    config: Config,
    thresholds: Thresholds,
    overrides: Overrides,
    folder: Path,
    environ: Mapping[str, str],
    *,
    is_object: bool,
) -> ControlSource:
    """Return the source of the control runs for which the settings ask.

    If there is no base commit, the field `problem` of the result states the reason. `is_object` is True if
    the agent is an object of the calling Python program, which no other commit has.

    Raises:
        InvalidInputError: `gate.control.url` is set, but the agent is not of kind `http`; or git does not
            know the commit that `--control` names.
    """
    control, kind = config.gate.control, config.agent.kind if config.agent else ""
    where = thresholds.find_position(("gate", "control")) if thresholds.file else (0, 0)
    if control.url is not None and kind != "http":
        raise InvalidInputError(
            [
                Problem(
                    thresholds.file,
                    *where,
                    f"`gate.control.url` is for an agent of kind `http`, not `{kind}`",
                )
            ]
        )
    commit, problem = "", ""
    if overrides.control is not None:
        commit = _find_named_commit(folder, overrides.control)
        if _is_tested(commit, folder, environ):
            commit, problem = "", f"`{overrides.control}` is the commit that is tested: name an earlier one"
    elif describe_unmerged_change(environ):
        commit = find_base_commit(folder, environ)
        how = describe_base_fetch(environ).partition(", so that")[0]
        problem = f"git does not know here what the change is merged into. {how}"
        if commit and _is_tested(commit, folder, environ):
            commit, problem = "", "what is checked out is the base commit, and not the change"
    else:
        problem = "no pull request is tested here, so name the commit to compare with, as `--control main`"
    return ControlSource(control, overrides, is_object, commit, problem)


def _find_named_commit(folder: Path, name: str) -> str:
    found = git.run_git(folder, "rev-parse", "-q", "--verify", "--end-of-options", f"{name}^{{commit}}")
    if not found:
        raise InvalidInputError(f"--control: git knows no commit `{name}` here")
    return found


def _is_tested(commit: str, folder: Path, environ: Mapping[str, str]) -> bool:
    """Return True if `commit` is checked out and no file is edited: then `commit` is what is tested.

    On a CI service edits are ignored, because a step of the job may have made them.
    """
    # A control with the tested code would fail wherever the change fails, so every regression would look like
    # a drift of the provider.
    if commit != git.run_git(folder, "rev-parse", "HEAD"):
        return False
    return is_known_service(environ) or not git.run_git(folder, "status", "--porcelain")
