"""The source of control runs: the base commit, or the address of its deployment."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from evalgate.config.cli_overrides import Overrides
from evalgate.config.schema.gate import ControlConfig
from evalgate.config.schema.thresholds import Config, Thresholds
from evalgate.core.errors import EvalgateError, InvalidInputError, Problem
from evalgate.core.frozen import frozen
from evalgate.system import git


class ControlUnavailableError(EvalgateError):
    """Control runs are not possible; the message states the reason as a part of a sentence."""


@frozen
class ControlSource:
    """The agent that control runs are made with."""

    config: ControlConfig
    overrides: Overrides
    """Options of the command line, which apply to the base commit's agent as well."""
    is_object: bool = False
    """True: the agent is an object of the program, which no other commit has."""

    @property
    def mode(self) -> Literal["suspects", "all"]:
        """Return which cases get control runs."""
        return "all" if self.config.mode == "all" else "suspects"

    def find_commit(self, folder: Path, environ: Mapping[str, str]) -> str:
        """Return the full hash of the base commit.

        Raises:
            ControlUnavailableError: nothing names it, or git does not know it.
        """
        if self.overrides.control is not None:
            return find_named_commit(folder, self.overrides.control)
        if not git.describe_unmerged_change(environ):
            raise ControlUnavailableError(
                "no pull request is tested here, so name the commit to compare with, as `--control main`"
            )
        if commit := git.find_base_commit(folder, environ):
            return commit
        how = git.describe_base_fetch(environ).partition(", so that")[0]
        raise ControlUnavailableError(f"git does not know here what the change is merged into. {how}")

    def describe_base(self, environ: Mapping[str, str]) -> str:
        """Return the name of the base, for sentences."""
        request = git.read_pull_request(environ)
        return self.overrides.control or (request.branch if request else "") or "the base branch"


def find_named_commit(folder: Path, name: str) -> str:
    """Return the full hash of the commit that git knows by this name.

    Raises:
        ControlUnavailableError: git knows no such commit.
    """
    found = git.run_git(folder, "rev-parse", "-q", "--verify", "--end-of-options", f"{name}^{{commit}}")
    if not found:
        raise ControlUnavailableError(f"git knows no commit `{name}` here")
    return found


def build_control_source(
    config: Config, rules: Thresholds, overrides: Overrides, folder: Path, *, is_object: bool
) -> ControlSource:
    """Return the source of control runs, which are asked for.

    Raises:
        InvalidInputError: the settings contradict each other, or git does not know `--control`.
    """
    control, kind = config.gate.control, config.agent.kind if config.agent else ""
    where = rules.find_position(("gate", "control")) if rules.file else (0, 0)
    if control.url is not None and kind != "http":
        raise InvalidInputError(
            [Problem(rules.file, *where, f"`gate.control.url` is for an agent of kind `http`, not `{kind}`")]
        )
    if overrides.control is not None:
        try:
            find_named_commit(folder, overrides.control)
        except ControlUnavailableError as error:
            raise InvalidInputError(f"--control: {error}") from None
    return ControlSource(control, overrides, is_object)
