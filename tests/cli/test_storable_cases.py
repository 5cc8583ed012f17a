"""Recorded values that no eval set can hold."""

from math import inf, nan
from pathlib import Path

from click.testing import CliRunner

from evalgate.cli.main import cli
from evalgate.cli.storable_cases import make_storable
from evalgate.core.types import CaseTurn, EvalCase, Reply, ToolCall, UserMessage
from evalgate.documents.strict_json import read_json
from evalgate.integrations.trpc.evalset import TrpcFormat
from tests.integrations.trace_sources.exports import Call, Turn, list_steps, to_otlp


def test_arguments_that_are_no_object_hold_names_of_numbers() -> None:
    call = ToolCall("f", None, other_args=[nan, {"a": -inf}, 1.5, "x"])
    case = EvalCase("c", (CaseTurn(UserMessage("Hi"), Reply("Hello", (call,))),))
    (found,) = make_storable(case).turns[0].expected.tool_calls
    assert (found.args, found.other_args) == (None, ["NaN", {"a": "-Infinity"}, 1.5, "x"])


def test_a_trace_with_nan_in_a_list_of_arguments_becomes_a_case(tmp_path: Path) -> None:
    turn = Turn("How much?", "A lot.", [Call("price", [nan, inf, 1.5], 3)])  # type: ignore[arg-type]
    (tmp_path / "traces.json").write_text(to_otlp(list_steps([turn])))
    words = ["generate", "--from", "traces.json", "--to", "trpc", "-o", "new.json", "-C", str(tmp_path)]
    done = CliRunner().invoke(cli, words, standalone_mode=False)
    assert (done.exception, done.return_value) == (None, 0), done.output
    (case,) = TrpcFormat().read_eval_set(read_json(tmp_path / "new.json", "new.json")).cases
    (call,) = case.turns[0].expected.tool_calls
    assert (call.args, call.other_args) == (None, ["NaN", "Infinity", 1.5])
