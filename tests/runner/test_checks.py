"""The section `checks` of a thresholds file: errors, warnings, cases, whole runs."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import evalgate
from evalgate.__main__ import main
from evalgate.config.cli_overrides import Overrides
from evalgate.config.loader import load_thresholds
from evalgate.core.errors import InvalidInputError
from evalgate.core.installation import describe_install
from evalgate.runner.plan import build_plan
from evalgate.runner.validation import check_files

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/checks.md").read_text("utf-8")
AGENT = """
def answer(text, session):
    session.tool_call("lookup_order", {"id": text})
    if text != "A-2":
        session.tool_call("issue_refund", {"order_id": text, "amount": 39.9 if text == "A-1" else "39.90"})
    return "Your refund is on its way." if text != "A-2" else "I cannot help with that."
"""


def write_project(
    folder: Path, checks: str, *, more: str = "", cases: tuple[str, ...] = ("A-1", "A-2", "A-3")
) -> None:
    """An agent, a case for each order, and a thresholds file."""
    (folder / "agent.py").write_text(AGENT)
    conversation = [
        {"user_content": {"parts": [{"text": order}]}, "final_response": {"parts": [{"text": "Your refund"}]}}
        for order in cases
    ]
    rows = [
        {"eval_id": f"refund_{turn['user_content']['parts'][0]['text']}", "conversation": [turn]}
        for turn in conversation
    ]
    (folder / "a.evalset.json").write_text(json.dumps({"eval_set_id": "a", "eval_cases": rows}))
    (folder / "evalgate.yaml").write_text(
        "version: 1\neval_sets: [a.evalset.json]\nagent: {kind: python, entry: 'agent.py:answer'}\n"
        f"{more}checks:\n{checks}"
    )


def find_problems(folder: Path, checks: str, more: str = "") -> list[str]:
    """The errors of a file with these checks, without its name; the first check is in line 5."""
    write_project(folder, checks, more=more)
    with pytest.raises(InvalidInputError) as error:
        list(check_files(Overrides(), thresholds_file=None, folder=folder))
    return [str(problem).removeprefix("evalgate.yaml:") for problem in error.value.problems]


@pytest.mark.parametrize(
    ("check", "problem"),
    [
        ("{}", "5:3: `checks.it` demands nothing: it needs `tools`, `args`, `response`, `state`, `files`, `alternatives` or `none_of`"),
        ("{tols: {forbid: a}}", "5:8: `checks.it.tols` is not a known key. Did you mean `tools`?"),
        ("{tools: {forbidd: a}}", "5:16: `checks.it.tools.forbidd` is not a known key. Did you mean `forbid`?"),
        ("{tools: {forbid: a}, gate: false}", "5:28: `checks.it.gate` is not a known key. Did you mean `gates`?"),
        ("{tools: {forbid: []}}", "5:16: `checks.it.tools.forbid` must not be empty"),
        ("{tools: {}}", "5:8: `checks.it.tools` demands nothing: name tools to `require` or to `forbid`, for example"),
        ("{tools: {require: delete_a, forbid: 'delete_*'}}", "5:8: `checks.it.tools` contradicts itself: `delete_a` is in `require` and in `forbid`"),
        ("{tools: {order: [a, b], forbid: '*'}}", "5:8: `checks.it.tools` contradicts itself: `a` is in `order` and in `forbid`"),
        ("{tools: {order: [a, b], only: [a]}}", "5:8: `checks.it.tools` contradicts itself: `b` is in `order` and not in `only`"),
        ("{tools: {max: {a: 1}, order: [a, b, a]}}", "5:8: `checks.it.tools` contradicts itself: `max` allows 1 of `a`, the rest wants 2 calls"),
        ("{tools: {max: {a: 1}, min: {a: 2}}}", "5:8: `checks.it.tools` contradicts itself: `max` allows 1 of `a`, the rest wants 2 calls"),
        ("{tools: {forbid: a}, args: {a: {x: 1}}}", "5:3: `checks.it` contradicts itself: `a` is in `args` and in `tools.forbid`"),
        ("{args: {a: {x: {}}}}", "5:19: `checks.it.args.a.x` demands nothing: say `{any: true}` if every value is right"),
        ("{tools: {forbid: ''}}", "5:16: `checks.it.tools.forbid` must name a tool: an empty name matches none"),
        ("{tools: {max: {' ': 1}}}", "5:22: `checks.it.tools.max. ` must name a tool: an empty name matches none"),
        ("{tools: {min: {a: 2, b: 2}, max: {'*': 3}}}", "5:8: `checks.it.tools` contradicts itself: `max` allows 3 of `*`, the rest wants 4 calls"),
        ("{tools: {require: [a, b], max: {'*': 1}}}", "5:8: `checks.it.tools` contradicts itself: `max` allows 1 of `*`, the rest wants 2 calls"),
        ("{tools: {max: {a: 0}}, args: {a: {x: 1}}}", "5:3: `checks.it` contradicts itself: `a` is in `args`, and `tools.max` allows no call"),
        ("{args: {a: {'.': {any: false}}}}", "5:19: `checks.it.args.a..` must be the path of a value, as `items[0].sku`, not '.'"),
        ("{args: {a: {x: {approx: 1, within: .inf}}}}", '5:34: `checks.it.args.a.x.within` must be a finite number, or a share as "5%", not inf'),
        ("{args: {a: {x: {approx: 1, within: true}}}}", '5:34: `checks.it.args.a.x.within` must be a finite number, or a share as "5%", not True'),
        ("{args: {a: {x: {approx: 1, within: 100%}}}}", "5:34: `checks.it.args.a.x.within` must be less than 100%, which every number of the same sign keeps, not '100%'"),
        ("{args: {a: {x: {matches: ''}}}}", "5:23: `checks.it.args.a.x.matches` must not be empty: an empty pattern matches every text"),
        ("{args: {a: {x: {json_schema: {$dynamicRef: '#nope'}}}}}", "5:23: `checks.it.args.a.x.json_schema` is not a JSON Schema: it refers to '#nope', which it does not hold"),
        ("{args: {a: {x: {json_schema: {$ref: '#/title/x', title: t}}}}}", "5:23: `checks.it.args.a.x.json_schema` is not a JSON Schema: it refers to '#/title/x', which it does not hold"),
        ("{args: {a: {x: {json_schema: {$ref: '#/parts/a', parts: {a: {$ref: '#/nope'}}}}}}}", "5:23: `checks.it.args.a.x.json_schema` is not a JSON Schema: it refers to '#/nope', which it does not hold"),
        ("{args: {a: {x: {json_schema: {$ref: '#/minLength/x', minLength: 3}}}}}", "5:23: `checks.it.args.a.x.json_schema` is not a JSON Schema: it refers to '#/minLength/x', which it does not hold"),
        ("{args: {a: {x: {json_schema: {$ref: '#/$defs/y'}}}}}", "5:23: `checks.it.args.a.x.json_schema` is not a JSON Schema: it refers to '#/$defs/y', which it does not hold"),
        ("{args: {a: {x: {json_schema: false}}}}", "5:23: `checks.it.args.a.x.json_schema` must be a JSON Schema, which is an object, or the path of a file with one"),
        ("{turn: 0, tools: {forbid: a}}", '5:8: `checks.it.turn` must be a whole number from 1, or "last", not 0'),
        ("{response: {equals: a b c, max_words: 2}}", "5:8: `checks.it.response` contradicts itself: `equals` has 3 words, and `max_words` allows 2"),
        ("{response: {starts_with: Hello, not_contains: ell}}", "5:8: `checks.it.response` contradicts itself: `starts_with` asks for 'ell', and `not_contains` forbids it"),
        ("{args: {a: {}}}", "5:15: `checks.it.args.a` must not be empty"),
        ("{args: {a: {x: {matches: '('}}}}", "5:23: `checks.it.args.a.x.matches` is not a regular expression of RE2: missing ): ("),
        ("{args: {a: {x: {any: false, equals: 1}}}}", "5:19: `checks.it.args.a.x` contradicts itself: with `any` the value must be absent, and `equals` wants more"),
        ("{args: {a: {x: {equals: 1, one_of: [2]}}}}", "5:19: `checks.it.args.a.x` contradicts itself: the value of `equals` is not in `one_of`"),
        ("{args: {a: {x: {equals: 1, within: 1}}}}", "5:19: `checks.it.args.a.x` has `within`, which belongs to `approx`"),
        ("{args: {a: {x: {json_schema: {type: 5}}}}}", "5:23: `checks.it.args.a.x.json_schema` is not a JSON Schema: at `/type`: 5 is not valid under any of the given schemas"),
        ("{args: {a: {x: {json_schema: none.json}}}}", "5:23: `checks.it.args.a.x.json_schema` names the file 'none.json', which cannot be read: No such file or directory"),
        ("{args: {a: {x: {semantic: ok}}}}", "5:3: `check/it` is judged by a model; no judging model is configured"),
        ("{response: {contains: ab, not_contains: b}}", "5:8: `checks.it.response` contradicts itself: `contains` asks for 'b', and `not_contains` forbids it"),
        ("{response: {contains: a b c, max_words: 2}}", "5:8: `checks.it.response` contradicts itself: `contains` has 3 words, and `max_words` allows 2"),
        ("{response: {similar: {by: embeddings, at_least: 0.5}}}", "5:19: `checks.it.response.similar` must name the `model` of the embeddings with `by: embeddings`, and with no other `by`"),
        ("{state: {a: 1}, turn: 2}", "5:3: `checks.it` has `turn`, but the state and files are known after the last turn only: make two checks"),
        ("{files: {../a: {exists: true}}}", "5:16: `checks.it.files.../a` must name files below the working folder, as `out/report.md`, not '../a'"),
        ("{files: {a: {exists: false, contains: b}}}", "5:16: `checks.it.files.a` contradicts itself: a file that must not exist has no content"),
        ("{alternatives: [{tools: {forbid: a}}, {calls: some}]}", "5:45: `checks.it.alternatives[1]` has `calls`, which belongs to `args`"),
        ("{alternatives: [{tools: {forbid: a}}]}", "5:3: `checks.it` must have two `alternatives` or more: write a single one without the list"),
        ("{tools: {forbid: a}, ids: 'refnd_*'}", "5:3: `check/it`: no case is called `refnd_*`"),
        ("{tools: {forbid: a}, ids: ['refund_*', refnd_A-1]}", "5:3: `check/it`: no case is called `refnd_A-1`"),
        ("{tools: {forbid: a}, tags: [x, y]}", "5:3: `check/it`: no case is tagged `x` or tagged `y`"),
        ("{tools: {forbid: a}, ids: []}", "5:28: `checks.it.ids` must not be empty"),
        ("{tools: {forbid: a}, threshold: 2}", "5:28: `checks.it.threshold` should be less than or equal to 1"),
        ("{tools: {forbid: a}, ids: refund_A-1}", "4:1: 2 cases of a.evalset.json, as 'refund_A-2', would be run and not scored: add a check without `ids` and `tags`, or `criteria`"),
        ("{tools: {forbid: a}, gates: false}", "1:1: no metric gates a.evalset.json"),
    ],
)  # fmt: skip
def test_a_wrong_check_is_an_error_at_its_line(tmp_path: Path, check: str, problem: str) -> None:
    found = find_problems(tmp_path, f"  it: {check}\n")
    assert [each[: len(problem)] for each in found] == [problem]


def test_without_its_package_a_pattern_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "re2", None)
    (found,) = find_problems(tmp_path, "  it: {response: {matches: never-seen-before}}\n")
    assert found == (
        "5:19: `checks.it.response.matches` cannot be used: regular expressions need RE2 (`google-re2`): "
        f"{describe_install('trpc')}"
    )


@pytest.mark.parametrize(
    ("check", "warnings"),
    [
        ("{response: {not_contains: sorry}}", ["an agent that refuses, or answers something else, passes: `not_contains` of a response asks for nothing. Say what it `contains`, or a tool to `require`"]),
        ("{response: {not_contains: sorry, max_words: 9}, state: {a: 1}}", []),
        ("{response: {not_contains: sorry, contains: refund}}", []),
        ("{tools: {require: issue_refnd}}", ["`issue_refnd` is named by no case, recording, mock or declaration of a tool. Did you mean `issue_refund`?"]),
        ("{tools: {forbid: delete_user}}", []),
        ("{args: {'issue_*': {a: 1}}, calls: if_any}", []),
        ("{none_of: [{tools: {require: issue_refund}}, {args: {issue_refund: {a: 1}}}]}", ["number 2 of `none_of` holds only if all calls of `issue_refund` have these arguments, so that another call hides a wrong one: add `calls: some`, or `calls: every` if that is meant"]),
        ("{none_of: [{args: {issue_refund: {a: 1}}, calls: some}, {args: {issue_refund: {b: 1}}, calls: every}]}", []),
    ],
)  # fmt: skip
def test_validate_warns(tmp_path: Path, check: str, warnings: list[str]) -> None:
    mocks = "tool_mocks: [{tool: issue_refund, result: ok}]\n"
    write_project(tmp_path, f"  it: {check}\n", more=mocks)
    lines = [*check_files(Overrides(), thresholds_file=None, folder=tmp_path)]
    prefix = "evalgate.yaml:6: `check/it`: "
    assert [line.removeprefix(prefix) for line in lines if line.startswith(prefix)] == warnings


def find_unknown_tools(folder: Path, *tools: str) -> list[str]:
    """The sentences of `validate` about these tools, of a check for each."""
    found = check_files(Overrides(), thresholds_file=None, folder=folder)
    return [line.partition("`: ")[2] for line in found if any(f"`{tool}` is" in line for tool in tools)]


def test_tools_of_recordings_and_alternatives_are_known(tmp_path: Path) -> None:
    checks = "  it: {tools: {require: [get_order, escalate]}}\n"
    write_project(tmp_path, checks, more="tool_mocks: {from: tools.evalset.json}\n")
    call = {"tool_uses": [{"name": "get_order", "args": {}}]}
    turn = {"user_content": {"parts": [{"text": "A-1"}]}, "intermediate_data": call}
    recorded = {"eval_set_id": "a", "eval_cases": [{"eval_id": "refund_A-1", "conversation": [turn]}]}
    (tmp_path / "tools.evalset.json").write_text(json.dumps(recorded))
    (tmp_path / "a.cases.yaml").write_text(
        "cases: {refund_A-1: {alternatives: [{turns: [{tools: [{name: escalate, args: {}}]}]}]}}\n"
    )
    assert find_unknown_tools(tmp_path, "get_order", "escalate") == []


def test_tools_of_wrong_ways_are_looked_for_among_declared_tools(tmp_path: Path) -> None:
    wrong = "{tools: {require: delete_usr}}, {args: {delete_user: {id: 1}}}, {tools: {forbid: escalte}}"
    write_project(tmp_path, f"  it: {{none_of: [{wrong}]}}\n")
    assert find_unknown_tools(tmp_path, "delete_usr", "delete_user") == []
    path = tmp_path / "a.evalset.json"
    content = json.loads(path.read_text())
    content["eval_cases"][0]["conversation"][0]["app_details"] = {
        "agent_details": {
            "root": {
                "name": "root",
                "instructions": "",
                "tool_declarations": [{"function_declarations": [{"name": "delete_user"}]}],
            }
        }
    }
    path.write_text(json.dumps(content))
    assert find_unknown_tools(tmp_path, "delete_usr", "delete_user") == [
        "`delete_usr` is not among the declared tools, so that it forbids nothing. Did you mean `delete_user`?"
    ]


CHECKS = """\
  never_deletes:
    tools: {forbid: "delete_*"}
  refund_args:
    ids: [refund_A-1, refund_A-3]
    args: {issue_refund: {amount: {approx: 39.9, within: 0.01}}}
  on_its_way: {response: {contains: on its way}, gates: false}
"""


def test_a_run_with_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_project(tmp_path, CHECKS)
    monkeypatch.chdir(tmp_path)
    assert main(["run"]) == 1
    record = evalgate.Record.read("evalgate-report/results.json")
    statuses = {
        case.eval_id: {metric.name: metric.status for metric in case.metrics} for case in record.cases
    }
    passed, reported = {"check/never_deletes": "passed"}, "check/on_its_way"
    assert statuses == {
        "refund_A-1": {**passed, "check/refund_args": "passed", reported: "passed"},
        "refund_A-2": {**passed, reported: "failed"},
        "refund_A-3": {**passed, "check/refund_args": "failed", reported: "passed"},
    }
    assert [case.status for case in record.cases] == ["passed", "passed", "failed"]
    reason = 'turn 1, call 2 `issue_refund(order_id="A-3", amount="39.90")`: `amount` should be 39.9 ± 0.01, found "39.90"'
    assert record.cases[2].metrics[1].reason == reason
    comment = (tmp_path / "evalgate-report/comment.md").read_text()
    assert "check/refund_args" in comment
    assert "should be 39.9 ± 0.01" in comment
    assert reason in (tmp_path / "evalgate-report/junit.xml").read_text().replace("&quot;", '"')

    assert main(["baseline", "save", "--allow-failing"]) == 0
    changed = CHECKS.replace("39.9, within: 0.01", "39.9, within: 0.02")
    write_project(tmp_path, changed, more="gate: {baseline: .evalgate/baseline.json}\n")
    main(["run"])
    notices = evalgate.Record.read("evalgate-report/results.json").notices
    assert any("check/refund_args is not compared" in notice for notice in notices)
    assert not any("check/never_deletes is not compared" in notice for notice in notices)


def test_checks_join_the_criteria_next_to_the_eval_set(tmp_path: Path) -> None:
    write_project(tmp_path, "  it: {tools: {forbid: a}}\n")
    plan = build_plan(Overrides(), thresholds_file=None, folder=tmp_path, environ={})
    assert [bound.name for bound in plan.suites[0].metrics] == ["check/it"]
    (tmp_path / "test_config.json").write_text('{"criteria": {"response_match_score": 0.5}}')
    plan = build_plan(Overrides(), thresholds_file=None, folder=tmp_path, environ={})
    assert [bound.name for bound in plan.suites[0].metrics] == ["response_match_score", "check/it"]


def test_cases_may_have_thresholds_of_their_own(tmp_path: Path) -> None:
    write_project(
        tmp_path,
        "  it: {tools: {forbid: a}}\n",
        more="cases: [{ids: refund_A-1, criteria: {check/it: 0.5}}]\n",
    )
    plan = build_plan(Overrides(), thresholds_file=None, folder=tmp_path, environ={})
    suite = plan.suites[0]
    found = [suite.get_metrics(case)[0].criterion.threshold for case in suite.eval_set.cases]
    assert found == [0.5, 1.0, 1.0]


def fingerprint(folder: Path, check: str) -> str:
    write_project(folder, f"  it: {check}\n")
    plan = build_plan(Overrides(), thresholds_file=None, folder=folder, environ={})
    return plan.suites[0].metrics[0].fingerprint


def test_the_fingerprint_is_that_of_the_conditions(tmp_path: Path) -> None:
    plain = fingerprint(tmp_path, "{tools: {forbid: a}}")
    assert fingerprint(tmp_path, "{tools: {forbid: [a]}, ids: 'refund_*', threshold: 0.5}") == plain
    assert fingerprint(tmp_path, "{tools: {forbid: b}}") != plain
    assert fingerprint(tmp_path, "{tools: {forbid: a}, turn: 1}") != plain
    (tmp_path / "s.json").write_text("{}")
    before = fingerprint(tmp_path, "{response: {json_schema: s.json}}")
    (tmp_path / "s.json").write_text('{"type": "object"}')
    assert fingerprint(tmp_path, "{response: {json_schema: s.json}}") != before


def test_the_library_takes_checks() -> None:
    cases = [{"query": "Hi", "reference": "Hello"}]
    checks: dict[str, Any] = {"greets": {"response": {"contains": "Hello"}}}
    record = evalgate.evaluate(cases, lambda _: "Hello", checks=checks)
    assert [metric.name for metric in record.metrics] == ["check/greets"]
    both = evalgate.evaluate(cases, lambda _: "Bye", checks=checks, criteria={"response_match_score": 0.0})
    assert [metric.status for metric in both.cases[0].metrics] == ["passed", "failed"]
    with pytest.raises(InvalidInputError, match=r"`checks` must be a mapping of names to conditions"):
        evalgate.evaluate(cases, lambda _: "Hello", checks=["greets"])  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=r"write the checks into the file"):
        evalgate.evaluate(cases, lambda _: "Hello", checks=checks, thresholds="evalgate.yaml")


# --- docs/checks.md -----------------------------------------------------------------------------------------


SNIPPETS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def test_the_snippet_of_case_notes_is_valid(tmp_path: Path) -> None:
    (notes,) = [block for block in SNIPPETS if "cases.yaml" in block]
    write_noted(tmp_path, notes.replace("refund_late", "refund_A-1"))
    (suite,) = build_plan(Overrides(), thresholds_file=None, folder=tmp_path, environ={}).suites
    assert [bound.name for bound in suite.metrics] == ["check/all", "check/asks_a_colleague"]


@pytest.mark.parametrize("block", [block for block in SNIPPETS if "cases.yaml" not in block])
def test_snippets_of_the_page_are_valid(tmp_path: Path, block: str) -> None:
    write_project(tmp_path, "", cases=("A-1",))
    body = block.replace("tags: [refunds]", "ids: ['*']").replace(
        "evals/refunds.evalset.json", "a.evalset.json"
    )
    text = (tmp_path / "evalgate.yaml").read_text().removesuffix("checks:\n")
    (tmp_path / "evalgate.yaml").write_text(body if "version:" in body else text + body)
    environ = {"OPENAI_API_KEY": "sk-none"}
    plan = build_plan(Overrides(), thresholds_file=None, folder=tmp_path, environ=environ)
    names = load_thresholds(tmp_path / "evalgate.yaml", "evalgate.yaml").config.checks
    assert [bound.name for bound in plan.suites[0].metrics] == [f"check/{name}" for name in names]


def test_python_of_the_page_runs() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(block, "checks.md", "exec"), {})


def test_the_reason_of_the_page_is_what_a_run_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_project(tmp_path, CHECKS)
    monkeypatch.chdir(tmp_path)
    main(["run"])
    reason = evalgate.Record.read("evalgate-report/results.json").cases[2].metrics[1].reason
    assert reason.replace("A-3", "A-7") in PAGE


NOTES = """\
cases:
  refund_A-1:
    checks:
      asks: {tools: {require: lookup_order}}
  refund_A-2:
    checks:
      asks: {tools: {require: lookup_order}}
      refunds:
        tools: {require: issue_refund}
"""


def write_noted(folder: Path, notes: str = NOTES, checks: str = "  all: {tools: {forbid: 'x_*'}}\n") -> None:
    write_project(folder, checks)
    (folder / "a.cases.yaml").write_text(notes)


def test_checks_in_case_notes_are_for_their_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_noted(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["run"]) == 1
    record = evalgate.Record.read("evalgate-report/results.json")
    assert {
        case.eval_id: {metric.name: metric.status for metric in case.metrics} for case in record.cases
    } == {
        "refund_A-1": {"check/all": "passed", "check/asks": "passed"},
        "refund_A-2": {"check/all": "passed", "check/asks": "passed", "check/refunds": "failed"},
        "refund_A-3": {"check/all": "passed"},
    }
    # The same check of two cases is one row.
    assert [row.name for row in record.metrics] == ["check/all", "check/asks", "check/refunds"]
    # Of the selected case only, with the fingerprint that it had.
    assert main(["run", "a.evalset.json:refund_A-1"]) == 0
    (case,) = evalgate.Record.read("evalgate-report/results.json").cases
    assert [metric.fingerprint for metric in case.metrics] == [
        metric.fingerprint for metric in record.cases[0].metrics
    ]


@pytest.mark.parametrize(
    ("check", "problem"),
    [
        ("{tols: {forbid: a}}", "5:12: `checks.it.tols` is not a known key. Did you mean `tools`?"),
        ("{tools: {forbidd: a}}", "5:20: `checks.it.tools.forbidd` is not a known key. Did you mean `forbid`?"),
        ("{tools: {forbid: a}, ids: x}", "5:32: `checks.it.ids` belongs into a thresholds file: this check is for its case only"),
        ("{tools: {forbid: a}, pass_hat_k: 3}", "5:7: pass^k with k = 3 needs as many `runs`, not 1"),
        ("{}", "5:7: `checks.it` demands nothing"),
        ("[]", "5:7: `cases.refund_A-1.checks.it` must be an object, not a list"),
    ],
)  # fmt: skip
def test_a_wrong_check_in_notes_is_an_error_at_its_line(tmp_path: Path, check: str, problem: str) -> None:
    write_noted(tmp_path, f"# notes\ncases:\n  refund_A-1:\n    checks:\n      it: {check}\n")
    with pytest.raises(InvalidInputError) as error:
        list(check_files(Overrides(), thresholds_file=None, folder=tmp_path))
    found = [str(each).removeprefix("a.cases.yaml:") for each in error.value.problems]
    assert [each[: len(problem)] for each in found] == [problem]


def test_a_check_has_one_meaning(tmp_path: Path) -> None:
    write_noted(tmp_path, NOTES.replace("asks", "all", 1))
    with pytest.raises(InvalidInputError) as error:
        build_plan(Overrides(), thresholds_file=None, folder=tmp_path, environ={})
    assert str(error.value) == (
        "a.cases.yaml:4:7: `checks.all` is also in evalgate.yaml:5: give one of the two another name"
    )


def test_validate_warns_of_checks_in_notes(tmp_path: Path) -> None:
    wrong_ways = "asks: {none_of: [{response: {json_schema: {}}}]}"
    write_noted(tmp_path, NOTES.replace("asks: {tools: {require: lookup_order}}", wrong_ways, 1))
    lines = [*check_files(Overrides(), thresholds_file=None, folder=tmp_path)]
    assert lines[0] == "a.evalset.json: 3 cases, scored with check/all, check/asks, check/refunds"
    assert lines[1] == (
        "a.cases.yaml:4: `check/asks`: an agent that refuses, or answers something else, passes: `none_of` names "
        "wrong answers only. Say what a `response` `contains`, or a tool to `require`"
    )
    assert [line.partition(": `check/")[0] for line in lines[2:-1]] == ["a.cases.yaml:7", "a.cases.yaml:8"]
