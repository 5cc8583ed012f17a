"""JSON that was redacted when it was written is searched again for secrets of this run."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from evalgate import __version__
from evalgate.datasets.results_io import dump_record
from evalgate.redaction.environment import is_worth_hiding
from evalgate.redaction.live_redactor import LiveRedactor
from evalgate.redaction.prefilter import may_contain_secret
from evalgate.redaction.redactor import REPLACEMENT, Redactor
from evalgate.runner.checkpoint.row_codec import dump_run, load_run
from evalgate.runner.shard_files import read_shard
from tests.builders import a_case_result, a_record, a_reply, a_run_result, a_turn_result
from tests.redaction.test_laws import CONTEXTS, SECRETS, SPELLINGS

BREAKING = ["", "\u200b", "\x07", "\r", "\x7f", "\x1b[1m", "\xad"]


@settings(max_examples=30, deadline=None)
@example("line one 1\nline two 2", "", "\r", "")
@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
@given(SECRETS, CONTEXTS, st.sampled_from(BREAKING), CONTEXTS)
def test_no_line_with_a_secret_passes(
    spelling: Callable[[str], str], secret: str, before: str, breaking: str, after: str
) -> None:
    redactor = Redactor.from_environment({"A_TOKEN": secret})
    assume(is_worth_hiding(secret))
    text = spelling(secret)
    text = f"{before} {text[:3]}{breaking}{text[3:]} {after}"
    assume(redactor.redact_text(text) != text)
    for value in (text, {text: 1}, [{"b": text}]):
        assert may_contain_secret(json.dumps(value, ensure_ascii=False), redactor.needles)


@pytest.mark.parametrize("text", ["plain", 'a "quoted"\nword\tand more', "Grüße, 世界"])
def test_an_ordinary_line_passes(text: str) -> None:
    line = json.dumps({"text": text}, ensure_ascii=False)
    assert not may_contain_secret(line, Redactor.from_environment({"A_TOKEN": "s3cr3t-of-mine"}).needles)


@pytest.mark.parametrize("said", ["::add-mask::hunter2-hunter2", "my s3cr3t-of-mine"])
def test_a_secret_of_this_machine_in_the_record_of_another_is_hidden(tmp_path: Path, said: str) -> None:
    run = a_run_result(a_turn_result(actual=a_reply(said)))
    record = a_record(a_case_result("a", runs=(run,)), a_case_result("b"))
    record = replace(record, evalgate_version=__version__)
    (tmp_path / "results.json").write_text(dump_record(record))
    found = read_shard(tmp_path / "results.json", "results.json")
    heard: list[str] = []
    hidden = Redactor.from_environment({"A_TOKEN": "s3cr3t-of-mine"}).redact_tree(found, heard.append)
    assert "s3cr3t-of-mine" not in dump_record(hidden)
    assert (REPLACEMENT in dump_record(hidden)) is (not heard)
    assert hidden.cases[1] is found.cases[1]


@pytest.mark.parametrize(
    "said", ["::add-mask::hunter2-hunter2", "my s3cr3t-of-mine", "my s3cr3t\u200b-of-mine"]
)
def test_a_secret_of_this_machine_in_a_journal_of_before_is_hidden(said: str) -> None:
    runs = [a_run_result(a_turn_result(actual=a_reply(text))) for text in (said, "plain", "hunter2-hunter2")]
    rows = [dump_run(run) for run in runs]
    redactor = LiveRedactor(Redactor.from_environment({"A_TOKEN": "s3cr3t-of-mine"}))
    found = redactor.redact_stored([(load_run(row), row) for row in rows])
    record = a_record(*(a_case_result(str(number), runs=(run,)) for number, run in enumerate(found)))
    text = dump_record(redactor.redact_tree(record))
    assert "s3cr3t-of-mine" not in text
    assert ("hunter2-hunter2" in text) is ("add-mask" not in said)
    assert "plain" in text
