"""Tell which eval sets a change edits, adds or removes: they are its own, not the base branch's."""

import glob
from collections.abc import Sequence

from evalgate.datasets.loading import METRICS_ENDINGS, TEST_CONFIG, build_notes_name
from evalgate.runner.base_branch import RuleFiles, format_paths


def note_changed_eval_sets(rule_files: RuleFiles, paths: Sequence[str], patterns: Sequence[str]) -> None:
    """Add notices about eval sets, and notes next to them, that differ from those of the base branch.

    `paths` are those of the eval sets that are run, and `patterns` the entries of `eval_sets` that name them.
    Files that git does not track are left out. Nothing is added if git does not know the base commit.
    """
    named = sorted({f":(literal){path}" for path in paths if path})
    edited = rule_files.list_changed_files(*named, *map(build_notes_name, named))
    if edited:
        rule_files.add_notice(
            f"The change brought its own: {format_paths(edited)}. What eval sets and their notes expect, "
            "with the tool mocks and final states in them, is as the change has it, not as the base branch."
        )
    if removed := _list_removed_sets(rule_files, patterns):
        rule_files.add_notice(
            f"The change removes {format_paths(removed)}, which the base branch has: the cases in there were "
            "not run."
        )


def _list_removed_sets(rule_files: RuleFiles, patterns: Sequence[str]) -> list[str]:
    """Return the files of the base branch that a pattern names, as far as names tell, and that are gone."""
    paths = [f":({'glob' if glob.has_magic(each) else 'literal'}){each}" for each in patterns if each]
    removed = rule_files.list_changed_files(*paths, options=("--diff-filter=D", "--no-renames"))
    others = (*METRICS_ENDINGS, TEST_CONFIG)
    return [path for path in removed if path.endswith(".json") and not path.endswith(others)]
