"""The command `history`: a badge and a page from the stored gate runs of a baseline."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evalgate.cli.options import baseline_file, in_project_directory, require_nonempty, thresholds_file
from evalgate.cli.project_folder import FOLDER
from evalgate.cli.redacted_output import print_sentence
from evalgate.core.formatting import pluralize

if TYPE_CHECKING:
    from evalgate.reporting.history.series import GateRunHistory
    from evalgate.system.workspace import Workspace


@click.command()
@click.option(
    "--out",
    default="evalgate-history",
    show_default=True,
    type=FOLDER,
    metavar="DIR",
    callback=require_nonempty,
    help="Folder for index.html and badge.svg.",
)
@click.option(
    "--label",
    default="evalgate",
    show_default=True,
    metavar="TEXT",
    callback=require_nonempty,
    help="Name of the agent or project, on the badge and the page.",
)
@click.option(
    "--repository",
    metavar="URL",
    help="Address of the repository, for links to commits.  [default: on GitHub, the one of the job]",
)
@baseline_file
@thresholds_file
@in_project_directory
def history(
    out: str,
    label: str,
    repository: str | None,
    to: str | None,
    thresholds: str | None,
    working_directory: str,
) -> int:
    """Write a badge and a history page of the baseline.

    Prints where metrics changed their level, with the commit, and the cases that broke and are not fixed.
    """
    from evalgate.core.errors import InvalidInputError
    from evalgate.redaction.live_redactor import LiveRedactor
    from evalgate.reporting.history.series import build_history, list_change_sentences
    from evalgate.runner.baseline_targets import resolve_target
    from evalgate.runner.current_thresholds import load_current_cases, load_current_thresholds

    server, name = os.environ.get("GITHUB_SERVER_URL"), os.environ.get("GITHUB_REPOSITORY")
    of_job = f"{server}/{name}" if server and name else ""
    address = of_job if repository is None else repository
    if address and not address.startswith(("https://", "http://")):
        raise InvalidInputError("`--repository` must be an address that begins with https:// or http://")
    target = resolve_target(Path(working_directory), to, thresholds)
    redactor = LiveRedactor.from_environment(os.environ)
    # The remark may name a problem, with text from the project's files, and the page may be published.
    known = redactor.redact_tree(load_current_thresholds(target, thresholds))
    ranges = {name: target.config.get_score_range(name) for name in known.common}
    stored = target.read()
    current = load_current_cases(target.config, target.criteria, target.workspace.folder, thresholds)
    baseline = redactor.redact_tree(current.require_run_cases(stored, target.target))
    found = build_history(baseline, known, ranges, target.config.gate.statistics.pass_score)
    try:
        _write_files(found, target.workspace, out, label, address)
    except OSError as error:
        raise InvalidInputError(f"{out}: cannot be written: {error.strerror}") from None
    for sentence in list_change_sentences(found.sources, found.series):
        print_sentence(sentence)
    if found.assumed:
        print_sentence(found.assumed)
    if removed := current.describe_removed_cases(stored):
        print_sentence(removed)
    runs = pluralize(len(found.sources), "gate run")
    print_sentence(f"History of {runs} written to {out}/index.html and {out}/badge.svg.")
    return 0


def _write_files(
    found: "GateRunHistory", workspace: "Workspace", out: str, label: str, repository: str
) -> None:
    from datetime import UTC, datetime

    from evalgate.reporting.history.badge import render_badge
    from evalgate.reporting.history.page import render_history
    from evalgate.system.files import write_atomically

    folder, now = workspace.folder / out, datetime.now(UTC)
    write_atomically(folder / "badge.svg", render_badge(found, label, now), workspace.owner)
    write_atomically(folder / "index.html", render_history(found, label, repository, now), workspace.owner)
