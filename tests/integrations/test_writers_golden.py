"""One eval set of Google ADK as every other format, to the letter. See golden/ for the files."""

from pathlib import Path

import pytest

from evalgate.core import plugin_registry
from evalgate.documents.strict_json import read_json
from evalgate.integrations.adk.evalset import AdkFormat

GOLDEN = Path(__file__).parent / "golden"

LOST = {
    "adk-rs": [
        "roll twice: the expected session state",
        "roll twice: the rubrics",
        "roll twice: turn 1: the rubrics",
        "roll twice: turn 1: what the tools answer",
        "roll twice: turn 1: the ids of the calls",
    ],
    "trpc": [
        "roll twice: the expected session state",
        "roll twice: turn 1: the rubrics",
        "roll twice: the rubric `short`, which is for no metric",
    ],
    "orchestrate": [
        "rolls: its id",
        "rolls: its name",
        "rolls: its time stamp",
        "roll twice: the expected session state",
        "roll twice: the rubrics",
        "roll twice: the user's id",
        "roll twice: turn 1: an attachment",
        "roll twice: turn 1: the rubrics",
        "roll twice: turn 1: the invocation's id",
        "roll twice: turn 1: what is said before the final response",
        "roll twice: turn 1: who says what",
        "roll twice: turn 1: what the tools answer",
        "roll twice: turn 1: the ids of the calls",
        "roll twice: which turn expects which call and which response",
    ],
}


@pytest.mark.parametrize("target", LOST)
def test_an_eval_set_is_written_in_another_format(target: str) -> None:
    document = read_json(GOLDEN / "rolls.adk.json", "rolls.adk.json")

    written = plugin_registry.get_writer(target).write_eval_set(AdkFormat().read_eval_set(document))

    assert written.text == (GOLDEN / f"rolls.{target}.json").read_text("utf-8")
    assert list(written.lost) == LOST[target]
