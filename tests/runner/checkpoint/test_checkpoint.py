"""The journal is deleted only when no run is missing and the record was written; its lock always ends."""

from pathlib import Path

import pytest

from evalgate.config.cli_overrides import Overrides
from evalgate.runner.checkpoint.journal import FILE_NAME, lock_journal, unlock_journal
from evalgate.runner.pipeline import OpenCheckpoints, RunOptions, SilentProgress, run_gate
from evalgate.runner.plan import build_plan
from tests.cli.test_cli import eval_set

AGENT = "def answer(text):\n    return text\n"


@pytest.mark.parametrize("is_published", [True, False])
def test_the_journal_stays_until_the_record_is_published(tmp_path: Path, is_published: bool) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "demo.evalset.json").write_text(eval_set("Hi"))
    (tmp_path / "test_config.json").write_text('{"criteria": {"response_match_score": 0.8}}')
    overrides = Overrides(eval_sets=("demo.evalset.json",), agent="python:agent.py:answer")
    plan = build_plan(overrides, thresholds_file=None, folder=tmp_path, environ={})
    with OpenCheckpoints() as checkpoints:
        run_gate(plan, SilentProgress(), RunOptions(journal_folder=tmp_path / "out", checkpoints=checkpoints))
        assert (tmp_path / "out" / FILE_NAME).exists()
        if is_published:
            checkpoints.mark_published()

    assert (tmp_path / "out" / FILE_NAME).exists() is not is_published
    # In a process that goes on, such as that of `evalgate view`, the next run needs the same folder.
    unlock_journal(tmp_path / "out", lock_journal(tmp_path / "out"))
