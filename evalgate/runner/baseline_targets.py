"""Find the baseline that a command reads or writes, and open its store."""

import os
from pathlib import Path

from evalgate.config.loader import find_thresholds_file, load_thresholds
from evalgate.config.schema.gate import DEFAULT_BASELINE
from evalgate.config.schema.thresholds import DEFAULT_CONFIG, Config
from evalgate.core import plugin_registry
from evalgate.core.errors import InvalidInputError
from evalgate.core.frozen import frozen
from evalgate.core.protocols import BaselineStore, HasFollowUpStep, StoreContext, explain_missing_baseline
from evalgate.core.types import Baseline, Criterion
from evalgate.system.files import is_taken
from evalgate.system.workspace import Workspace, resolve_workspace


@frozen
class BaselineTarget:
    """Baseline that a command reads or writes, with its open store and the thresholds file that applies."""

    workspace: Workspace
    target: str
    store: BaselineStore
    config: Config
    """Contents of the thresholds file; the defaults without a file."""
    criteria: tuple[Criterion, ...] = ()
    """Criteria of the thresholds file; () without a file."""

    @property
    def keep(self) -> int:
        """Return how many gate runs (runs of the whole gate) the baseline keeps for each eval set."""
        return self.config.gate.statistics.baseline_keep

    @property
    def next_step(self) -> str:
        """Return the user's next step after an update, with a leading blank, such as ` Commit it.`.

        Return "" if the store needs no further step. The text is appended to a message.
        """
        return f" {self.store.next_step}" if isinstance(self.store, HasFollowUpStep) else ""

    def read(self) -> Baseline:
        """Read the baseline.

        Raises:
            InvalidInputError: the store has no baseline yet, or the baseline cannot be read.
        """
        if (found := self.store.read()) is None:
            raise InvalidInputError(
                f"{self.target}: there is no baseline yet{explain_missing_baseline(self.store)}. "
                f"`evalgate run`, then "
                "`evalgate baseline save`."
            )
        return found


def resolve_target(folder: Path, to: str | None, thresholds_file: str | None) -> BaselineTarget:
    """Find the baseline and the thresholds file of a command, and open the baseline's store.

    `to` is the name of the baseline. None: the name is `gate.baseline` of the thresholds file, or the default
    path without this setting. `thresholds_file` is the path of the thresholds file. None: the file in
    `folder` is read; if there is none, the default settings apply.

    Raises:
        InvalidInputError: the folder or the thresholds file does not exist, the thresholds file is wrong, or
            the name of the baseline is wrong.
    """
    workspace = resolve_workspace(folder)
    path = workspace.folder / thresholds_file if thresholds_file else find_thresholds_file(workspace.folder)
    thresholds = load_thresholds(path, thresholds_file or workspace.format_path(path)) if path else None
    config = thresholds.config if thresholds else DEFAULT_CONFIG
    target = to or config.gate.baseline or DEFAULT_BASELINE
    return BaselineTarget(
        workspace,
        target,
        open_named_store(workspace, target),
        config,
        thresholds.criteria if thresholds else (),
    )


def find_baseline(workspace: Workspace) -> str | None:
    """Return the default path of a baseline if something exists at this path; otherwise None."""
    return DEFAULT_BASELINE if is_taken(workspace.folder / DEFAULT_BASELINE) else None


def open_named_store(workspace: Workspace, name: str) -> BaselineStore:
    """Return the baseline store with the name `name`: a path, `branch:NAME`, a URL and so on.

    Raises:
        InvalidInputError: `name` is no valid name of a baseline.
    """
    # Imported here, because `evalgate report` loads this module and reads no baseline.
    from evalgate.baselines.stores.file import FileStore

    context = StoreContext(workspace.folder, os.environ, workspace.owner)
    store = plugin_registry.resolve_baseline_store(name, context)
    return store or FileStore(workspace.folder / name, name, workspace.owner)
