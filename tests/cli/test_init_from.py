"""`evalgate init --from`: from the files of another tool to a gate that runs."""

import json
from pathlib import Path
from textwrap import dedent

import pytest
import yaml
from click.testing import CliRunner

from evalgate.cli.main import cli
from evalgate.core.errors import InvalidInputError
from evalgate.datasets.python_patterns import translate_full_match
from tests.cli.test_cli import AGENT, eval_set
from tests.cli.test_init import ADK, config, terminal
from tests.commands import Done, evalgate

PROMPTFOO = dedent("""\
    prompts:
      - 'Customer: {{query}}'
    providers:
      - id: file://desk/provider.py
        config: {greeting: Certainly}
      - openai:gpt-5-mini
    defaultTest:
      assert: [{type: not-contains, value: error}]
    tests:
      - description: late order
        vars: {query: where is order 7?}
        assert:
          - {type: icontains, value: 'ORDER {{number}}'}
          - {type: regex, value: 'ORDER 7?|order'}
      - vars: {query: [hello, hi]}
        assert: [{type: equals, value: 'Certainly. Customer: {{query}}'}]
      - vars: {query: joke}
        assert: [{type: javascript, value: output.length}]
      - file://desk/more.csv
    """).replace("'ORDER {{number}}'", "ORDER 7")
PROVIDER = dedent("""\
    import os

    TONE = os.environ.get("DESK_TONE", "")


    async def call_api(prompt, options, context):
        return {"output": f"{options['config']['greeting']}. {prompt}"}
    """)


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def init(folder: Path, *arguments: str) -> Done:
    """Run `evalgate init` in this process, which takes a tenth of the time."""
    done = CliRunner().invoke(cli, ["init", *arguments, "-C", str(folder)])
    if isinstance(done.exception, InvalidInputError):  # the program's entry point prints it
        return Done(2, done.output, str(done.exception), folder)
    assert done.exception is None, done.exception
    return Done(done.exit_code, done.output, "", folder)


def left_out(done: Done) -> list[str]:
    prefix = "not carried over: "
    return [line.removeprefix(prefix) for line in done.out.splitlines() if line.startswith(prefix)]


@pytest.fixture
def promptfoo(tmp_path: Path) -> Path:
    more = 'query,__expected,__expected2\nthe blue one,"contains-all: blue, one",\nthe red one,starts-with:Certainly,\n'
    write(tmp_path, {"promptfooconfig.yaml": PROMPTFOO, "desk/provider.py": PROVIDER, "desk/more.csv": more})
    return tmp_path


def test_a_promptfoo_project_is_gated_with_its_own_provider(promptfoo: Path) -> None:
    done = init(promptfoo, "--from", ".")
    assert done.code == 0, done.err
    assert left_out(done) == [
        "promptfooconfig.yaml:18: test-3: assert `javascript` (code)",
        "promptfooconfig.yaml: provider `openai:gpt-5-mini`: a gate has one agent",
    ]
    found = config(promptfoo)
    assert found["eval_sets"] == ["evals/promptfooconfig.evalset.json"]
    agent = found["agent"]
    assert isinstance(agent, dict)
    assert (agent["entry"], agent["env"]) == ("evals/promptfoo_agent.py:answer", ["DESK_TONE"])
    assert evalgate("validate", cwd=promptfoo).code == 0
    ran = evalgate("run", cwd=promptfoo)
    assert ran.code == 0, ran.out + ran.err
    assert "6 cases: 6 passed" in ran.out
    (promptfoo / "desk/provider.py").write_text(PROVIDER.replace("{prompt}", "No."))
    assert evalgate("run", cwd=promptfoo).code == 1


def test_the_offer_is_made_where_a_promptfoo_configuration_lies(promptfoo: Path) -> None:
    done = init(promptfoo)
    assert "`evalgate init --from promptfooconfig.yaml` takes over that project's evaluation" in done.out
    refused = init(promptfoo, "--from", "promptfooconfig.yaml")
    assert refused.code == 2
    assert "evalgate.yaml: exists already" in refused.err


@pytest.mark.parametrize(
    ("answers", "entry"),
    [(("",), "evals/promptfoo_agent.py:answer"), (("n", ""), "evals/sample_agent.py:answer")],
)
def test_on_a_terminal_it_asks_whether_to_take_over(
    answers: tuple[str, ...], entry: str, promptfoo: Path
) -> None:
    assert "Take over the evaluation of promptfooconfig.yaml? [Y/n]: " in terminal(promptfoo, *answers)
    agent = config(promptfoo)["agent"]
    assert isinstance(agent, dict)
    assert agent["entry"] == entry


def test_a_model_of_openai_becomes_an_http_agent(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "promptfooconfig.yaml": dedent("""\
                prompts: ['Capital of {{country}}?']
                providers: [{id: 'openai:chat:gpt-5-mini', config: {temperature: 0, apiBaseUrl: 'http://localhost:1/v1'}}]
                tests: [{vars: {country: France}, assert: [{type: contains, value: Paris}]}]
                """)
        },
    )
    assert init(tmp_path, "--from", "promptfooconfig.yaml").code == 0
    assert config(tmp_path)["agent"] == {
        "kind": "http",
        "url": "http://localhost:1/v1",
        "dialect": "openai",
        "model": "gpt-5-mini",
        "body": {"temperature": 0},
        "headers": {"Authorization": "Bearer ${OPENAI_API_KEY}"},
        "timeout": 60,
        "env": [],
    }
    assert evalgate("validate", cwd=tmp_path).code == 0


def test_a_provider_without_a_counterpart_needs_an_agent(tmp_path: Path) -> None:
    text = PROMPTFOO.replace("file://desk/provider.py", "bedrock:titan").replace(
        "  - file://desk/more.csv\n", ""
    )
    write(tmp_path, {"promptfooconfig.yaml": text.replace("  - openai:gpt-5-mini\n", ""), "agent.py": AGENT})
    refused = init(tmp_path, "--from", ".")
    assert refused.code == 2
    assert "add --agent KIND:WHAT" in refused.err
    assert not (tmp_path / "evalgate.yaml").exists()
    assert init(tmp_path, "--from", ".", "--agent", "python:agent.py:answer").code == 0
    assert (
        evalgate("run", cwd=tmp_path).code == 1
    )  # it repeats what it hears, and says nothing of `Certainly`


GOLDENS = [
    {"input": "hello there", "expected_output": "hello there", "name": "greets", "context": ["shop"]},
    {
        "input": "bye",
        "expected_output": "bye",
        "expected_tools": [{"name": "end", "inputParameters": {"now": True}}],
    },
]
METRICS = dedent("""\
    from deepeval.metrics import AnswerRelevancyMetric, ToolCorrectnessMetric as Tools

    METRICS = [AnswerRelevancyMetric(threshold=0.7), Tools(threshold=0.75)]
    """)
WITH_CALLS = dedent("""\
    def answer(text):
        calls = [{"name": "end", "args": {"now": False}}] if text == "bye" else []
        return {"response": text, "tool_calls": calls}
    """)


def test_goldens_of_deepeval_are_gated_with_its_tool_correctness(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"data/goldens.json": json.dumps(GOLDENS), "tests/test_desk.py": METRICS, "agent.py": WITH_CALLS},
    )
    done = init(tmp_path, "--from", ".", "--agent", "python:agent.py:answer")
    assert done.code == 0, done.err
    assert left_out(done) == [
        "data/goldens.json: `context` is not carried over (1 time)",
        "tests/test_desk.py:3: metric AnswerRelevancyMetric (a model grades it from 0 to 1)",
    ]
    found = config(tmp_path)
    assert found["eval_sets"] == ["evals/goldens.evalset.json"]
    assert found["criteria"] == {
        "trajectory_recall": {"threshold": 0.75, "ignore_args": True},
        "response_match_score": 0.8,
    }
    assert evalgate("validate", cwd=tmp_path).code == 0
    ran = evalgate("run", cwd=tmp_path)
    assert ran.code == 0, ran.out + ran.err
    (tmp_path / "agent.py").write_text(AGENT)
    assert evalgate("run", cwd=tmp_path).code == 1


@pytest.mark.parametrize(
    ("options", "criterion"),
    [
        ("", {"trajectory_recall": {"threshold": 0.5, "ignore_args": True}}),
        ("strict_mode=True", {"trajectory_recall": {"threshold": 1.0, "ignore_args": True}}),
        (
            "evaluation_params=[ToolCallParams.INPUT_PARAMETERS]",
            {"trajectory_recall": {"threshold": 0.5, "ignore_args": False}},
        ),
        ("should_exact_match=True", {"trajectory_exact_match": {"threshold": 0.5, "ignore_args": True}}),
    ],
)
def test_options_of_tool_correctness_are_read(options: str, criterion: object, tmp_path: Path) -> None:
    from evalgate.datasets.deepeval_metrics import read_metrics

    text = f"from deepeval.metrics import ToolCorrectnessMetric\nMETRIC = ToolCorrectnessMetric({options})\n"
    write(tmp_path, {"test_desk.py": text, "broken.py": "import deepeval\ndef ("})
    found = read_metrics([tmp_path / "test_desk.py", tmp_path / "broken.py"], lambda path: path.name)
    assert (found.criteria, found.lost) == (criterion, ())


def test_a_link_to_nothing_is_passed_over(tmp_path: Path) -> None:
    write(tmp_path, {"data/goldens.json": json.dumps(GOLDENS), "agent.py": WITH_CALLS})
    (tmp_path / "data/gone.json").symlink_to("nowhere.json")
    done = init(tmp_path, "--from", ".", "--agent", "python:agent.py:answer")
    assert done.code == 0, done.err
    assert config(tmp_path)["eval_sets"] == ["evals/goldens.evalset.json"]


def test_tool_correctness_of_both_kinds_is_kept(tmp_path: Path) -> None:
    from evalgate.datasets.deepeval_metrics import read_metrics

    made = [f"ToolCorrectnessMetric({each})" for each in ("threshold=0.9", "should_exact_match=True", "")]
    text = f"from deepeval.metrics import ToolCorrectnessMetric\nMETRICS = [{', '.join(made)}]\n"
    write(tmp_path, {"test_desk.py": text})
    assert read_metrics([tmp_path / "test_desk.py"], lambda path: path.name).criteria == {
        "trajectory_recall": {"threshold": 0.9, "ignore_args": True},
        "trajectory_exact_match": {"threshold": 0.5, "ignore_args": True},
    }


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("threshold=LEAST", "with a `threshold` that is computed"),
        ("threshold='high'", "with the threshold high"),
        ("strict_mode=STRICT", "with a `strict_mode` that is computed"),
        ("should_exact_match=EXACT", "with a `should_exact_match` that is computed"),
        ("**OPTIONS", "with options that are computed"),
        ("*ARGUMENTS", "with options that are computed"),
        ("0.8", "with options that are not named"),
        ("evaluation_params=PARAMS", "with `evaluation_params` that are computed"),
        (
            "evaluation_params=[ToolCallParams.INPUT_PARAMETERS, ToolCallParams.OUTPUT]",
            "with `evaluation_params` that no criterion compares",
        ),
        ("available_tools=[]", "(with the order of calls, or with a model that grades them)"),
    ],
)
def test_a_tool_correctness_that_only_its_code_knows_is_lost(
    options: str, reason: str, tmp_path: Path
) -> None:
    from evalgate.datasets.deepeval_metrics import read_metrics

    text = f"from deepeval.metrics import ToolCorrectnessMetric\nMETRIC = ToolCorrectnessMetric({options})\n"
    write(tmp_path, {"test_desk.py": text})
    found = read_metrics([tmp_path / "test_desk.py"], lambda path: path.name)
    assert (found.criteria, found.lost) == ({}, (f"test_desk.py:2: metric ToolCorrectnessMetric {reason}",))


def test_metrics_of_deepeval_without_a_model_become_checks(tmp_path: Path) -> None:
    metrics = dedent("""\
        from deepeval.metrics import ExactMatchMetric, PatternMatchMetric, ToolPermissionMetric

        METRICS = [
            ExactMatchMetric(),
            PatternMatchMetric(r"\\w+(, .{,5})?", ignore_case=True),
            ToolPermissionMetric(allowed_tools=["end"], denied_tools=["drop"]),
        ]
        """)
    goldens = [{"input": "bye", "expected_output": "bye", "expected_tools": ["end"]}]
    files = {"goldens.json": json.dumps(goldens), "test_desk.py": metrics, "agent.py": WITH_CALLS}
    write(tmp_path, files)
    done = init(tmp_path, "--from", ".", "--agent", "python:agent.py:answer")
    assert (done.code, left_out(done)) == (0, []), done.err
    found = config(tmp_path)
    assert found["criteria"] == {"trajectory_recall": {"threshold": 0.5, "ignore_args": True}}
    assert found["checks"] == {
        "exact_match": {"response": {"similar": {"by": "edit_distance", "max_edits": 0}}},
        "pattern_match": {"response": {"matches": translate_full_match(r"\w+(, .{,5})?", ignore_case=True)}},
        "tool_permission": {"tools": {"only": ["end"], "forbid": ["drop"]}},
    }
    ran = evalgate("run", cwd=tmp_path)
    assert ran.code == 0, ran.out + ran.err
    (tmp_path / "agent.py").write_text(WITH_CALLS.replace('"name": "end"', '"name": "drop"'))
    ran = evalgate("run", cwd=tmp_path)
    assert ran.code == 1
    assert "check/tool_permission" in ran.out + ran.err


@pytest.mark.parametrize(
    ("source", "lost"),
    [
        ("PatternMatchMetric(PATTERN)", "with a `pattern` that is computed"),
        ("PatternMatchMetric('(?=a)b')", "with a pattern that RE2 does not read"),
        ("PatternMatchMetric('(')", "with a pattern that Python does not read"),
        (r"PatternMatchMetric(r'\bword\b')", r"with `\b`"),
        ("ToolPermissionMetric(allowed_tools=['a'], threshold=0.5)", "with the threshold 0.5"),
        ("ExactMatchMetric(0)", "with the threshold 0"),
        ("[ToolPermissionMetric(['a']), ToolPermissionMetric(['b'])]", "with other options in other tests"),
        ("GEval(name='x', criteria='y')", "(a model grades it"),
        ("JsonCorrectnessMetric(expected_schema=Answer)", "(its schema is a class"),
    ],
)
def test_metrics_of_deepeval_that_have_no_check_are_named(source: str, lost: str, tmp_path: Path) -> None:
    from evalgate.datasets.deepeval_metrics import read_metrics

    (tmp_path / "test_desk.py").write_text(
        f"from deepeval.metrics import *\nMETRICS = {source}\n".replace(
            "*", "ExactMatchMetric, GEval, JsonCorrectnessMetric, PatternMatchMetric, ToolPermissionMetric", 1
        )
    )
    found = read_metrics([tmp_path / "test_desk.py"], lambda path: path.name)
    assert found.checks == {}
    assert all(sentence.startswith("test_desk.py:2: metric ") and lost in sentence for sentence in found.lost)
    assert found.lost


def test_an_adk_project_keeps_its_eval_sets_and_criteria(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "shop/__init__.py": "",
            "shop/agent.py": ADK,
            "shop/evals/a.evalset.json": eval_set("hello there"),
            "shop/evals/test_config.json": '{"criteria": {"response_match_score": 0.25}}',
            ".env.example": "# a comment\nGOOGLE_API_KEY=\nexport SHOP_URL=http://x\n",
            "tests/test_shop.py": (
                "async def test_shop():\n"
                "    await AgentEvaluator.evaluate('shop', 'x.test.json', initial_session_file='s.json')\n"
                "    await AgentEvaluator.evaluate('shop', 'y.test.json', initial_session_file=None)\n"
            ),
        },
    )
    done = init(tmp_path, "--from", ".")
    assert done.code == 0, done.err
    assert left_out(done) == [
        "tests/test_shop.py:2: `initial_session_file='s.json'`: set `file` of the section `session` to it"
    ]
    found = config(tmp_path)
    assert found["eval_sets"] == ["shop/evals/*.evalset.json"]
    assert found["agent"] == {
        "kind": "adk",
        "entry": "shop",
        "timeout": 60,
        "env": ["GOOGLE_API_KEY", "SHOP_URL"],
    }
    assert "criteria" not in found
    assert "scored with response_match_score" in evalgate("validate", cwd=tmp_path).out
    write(tmp_path, {"agent.py": AGENT})
    ran = evalgate("run", "--agent", "python:agent.py:wrong", cwd=tmp_path)
    assert ran.code == 1
    assert "0.25" in ran.out


def test_criteria_that_adk_is_given_by_an_option_are_named(tmp_path: Path) -> None:
    criteria = '{"criteria": {"response_match_score": 0.25}}'
    write(
        tmp_path,
        {
            "tests/eval/eval_config.json": criteria,
            "tests/eval/evalsets/a.evalset.json": eval_set("hello there"),
            "tests/eval/evalsets/test_config.json": criteria,
            "tests/eval/test_config.json": criteria,
            "tests/eval/sampler_config.json": '{"app_name": "shop"}',
            "tests/eval/broken_config.json": "{",
        },
    )
    done = init(tmp_path, "--from", ".", "--agent", "python:agent.py:answer")
    assert left_out(done) == [
        f"tests/eval/{name}: criteria for Google ADK, which names the file with `--config_file_path`: copy them "
        "into `criteria`, or copy the file next to the eval sets as `test_config.json`"
        for name in ("eval_config.json", "test_config.json")
    ]


def test_one_eval_set_is_taken_over_by_its_name(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "shop/__init__.py": "",
            "shop/agent.py": ADK,
            "evals/desk_evalset.json": eval_set("hello there"),
            "evals/other.evalset.json": eval_set("hello there"),
        },
    )
    done = init(tmp_path, "--from", "evals/desk_evalset.json")
    assert done.code == 0, done.err
    assert "Taken over from Google ADK (evals/desk_evalset.json)." in done.out
    found = config(tmp_path)
    assert found["eval_sets"] == ["evals/desk_evalset.json"]
    assert found["agent"] == {"kind": "adk", "entry": "shop", "timeout": 60, "env": []}


def test_a_trpc_project_keeps_its_metrics(tmp_path: Path) -> None:
    turn = {
        "invocationId": "1",
        "userContent": {"role": "user", "content": "hello"},
        "finalResponse": {"role": "assistant", "content": "hello"},
    }
    case = {
        "evalId": "greets",
        "conversation": [turn],
        "sessionInput": {"appName": "desk", "userId": "u", "state": {}},
    }
    metric = {
        "metricName": "final_response_avg_score",
        "threshold": 1.0,
        "criterion": {"finalResponse": {"text": {"matchStrategy": "exact"}}},
    }
    write(
        tmp_path,
        {
            "data/desk/set.evalset.json": json.dumps({"evalSetId": "set", "evalCases": [case]}),
            "data/desk/set.metrics.json": json.dumps([metric]),
            "agent.py": AGENT,
        },
    )
    assert init(tmp_path, "--from", ".").code == 2  # a service in Go: only the user knows its address
    done = init(tmp_path, "--from", "data/desk", "--agent", "python:agent.py:answer")
    assert done.code == 0, done.err
    assert "Taken over from tRPC-Agent-Go (data/desk/*.evalset.json)." in done.out
    ran = evalgate("run", cwd=tmp_path)
    assert ran.code == 0, ran.out + ran.err
    assert "ok  final_response_avg_score" in ran.out


def test_a_langgraph_project_names_its_graph_and_variables(tmp_path: Path) -> None:
    graphs = {"desk": "./src/graph.py:graph", "other": {"path": "./src/other.py:graph"}}
    write(
        tmp_path,
        {
            "app/langgraph.json": json.dumps({"dependencies": ["."], "graphs": graphs, "env": ".env"}),
            "app/.env": "OPENAI_API_KEY=sk-secret\n",
            "app/src/graph.py": "",
        },
    )
    done = init(tmp_path, "--from", "app")
    assert done.code == 0, done.err
    assert "Further agents that are here: python:app/src/other.py:graph." in done.out
    assert "LangGraph has no eval sets" in done.out
    found = config(tmp_path)
    agent = found["agent"]
    assert isinstance(agent, dict)
    assert (agent["entry"], agent["env"]) == ("app/src/graph.py:graph", ["OPENAI_API_KEY"])
    assert "sk-secret" not in (tmp_path / "evalgate.yaml").read_text()
    write(tmp_path, {"questions.txt": "where is order 7?\n"})
    command = "generate --from questions.txt --to adk -o evals/first.evalset.json"
    assert evalgate(*command.split(), cwd=tmp_path).code == 0
    assert evalgate("validate", cwd=tmp_path).code == 0


def test_kinds_of_tests_are_not_mixed(promptfoo: Path) -> None:
    write(promptfoo, {"shop.evalset.json": eval_set("hello"), "goldens.json": json.dumps(GOLDENS)})
    done = init(promptfoo, "--from", ".", "--agent", "python:agent.py:answer")
    assert config(promptfoo)["eval_sets"] == ["*.evalset.json"]
    assert left_out(done) == [
        "promptfoo (promptfooconfig.yaml): one thresholds file gates one kind of tests",
        "DeepEval (goldens.json): one thresholds file gates one kind of tests",
    ]


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (".", "no project to take over"),
        ("gone", "gone: no such file or folder"),
        ("notes.yaml", "notes.yaml: is no project to take over"),
    ],
)
def test_nothing_to_take_over_is_said(source: str, sentence: str, tmp_path: Path) -> None:
    write(tmp_path, {"notes.yaml": "a: 1\n"})
    done = init(tmp_path, "--from", source)
    assert done.code == 2
    assert sentence in done.err
    assert [each.name for each in tmp_path.iterdir()] == ["notes.yaml"]


def test_the_checks_written_are_yaml(promptfoo: Path) -> None:
    init(promptfoo, "--from", ".")
    text = (promptfoo / "evalgate.yaml").read_text("utf-8")
    assert "checks: # the assertions of promptfoo's tests" in text
    found = yaml.safe_load(text)
    assert "criteria" not in found
    assert found["checks"]["not-contains"] == {"response": {"not_contains": "error"}}
    assert found["checks"]["late_order_regex"] == {
        "ids": ["late_order"],
        "response": {"matches": "ORDER 7?|order"},
    }


@pytest.mark.parametrize("is_absolute", [True, False])
def test_a_project_may_lie_beside_the_gate(is_absolute: bool, tmp_path: Path) -> None:
    write(
        tmp_path,
        {"other/desk/shop.evalset.json": eval_set("Hi"), "other/desk/agent.py": AGENT, "gate/.keep": ""},
    )
    other = str(tmp_path / "other") if is_absolute else "../other"
    done = init(tmp_path / "gate", "--from", other, "--agent", "python:agent.py:answer")
    assert done.code == 0, done.err
    assert config(tmp_path / "gate")["eval_sets"] == ["../other/desk/*.evalset.json"]
