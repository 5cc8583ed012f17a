"""`evalgate matrix`: the same cases for every variant of the agent, in one table."""

import json
import os
import re
import shlex
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from evalgate.core.errors import InvalidInputError
from evalgate.reporting.matrix.files import build_matrix_schema, remove_matrix
from evalgate.runner.variants import Variation, parse_variations
from evalgate.system.files import GuardedFolder
from tests.browser import find_violations, has_sideways_scroll, save_picture
from tests.commands import Done, evalgate

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROOT = Path(__file__).parents[2]
SCHEMA = ROOT / "docs/matrix.schema.json"
AGENT = """
import os, signal, time

def answer(text):
    model, case = os.environ["MODEL"], int(text.split()[-1])
    with open("order.txt", "a") as log:
        log.write(f"{case} {model}\\n")
    if os.environ.get("INTERRUPT") == text:
        os.kill(os.getppid(), signal.SIGINT)
        time.sleep(30)
    good = model != "nano" or case % 2 == 0
    cost = {"big": 0.004, "mini": 0.001, "nano": 0.0002}.get(model, 0.002) * (1 + case / 100)
    usage = {"input_tokens": 200 + case, "output_tokens": 40, "cost_usd": cost}
    return {"response": f"hello {case}" if good else "no idea", "usage": usage}

def answer_in_steps(text):
    return answer(text)
"""
COMMANDS = re.findall(r"^evalgate (matrix .*)$", (ROOT / "docs/matrix.md").read_text("utf-8"), re.MULTILINE)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "agent.py").write_text(AGENT, "utf-8")
    (tmp_path / "evalgate.yaml").write_text(
        "agent: {kind: python, entry: 'agent.py:answer', env: [INTERRUPT]}\n"
        "eval_sets: [s.evalset.json]\ncriteria: {response_match_score: 0.8}\n"
    )
    cases = [
        {
            "evalId": f"case_{at}",
            "conversation": [
                {
                    "userContent": {"role": "user", "parts": [{"text": f"say {at}"}]},
                    "finalResponse": {"role": "model", "parts": [{"text": f"hello {at}"}]},
                }
            ],
        }
        for at in range(24)
    ]
    (tmp_path / "s.evalset.json").write_text(json.dumps({"evalSetId": "s", "evalCases": cases}))
    return tmp_path


def read_matrix(done: Done) -> Any:
    found = json.loads((done.folder / "evalgate-report/matrix.json").read_text("utf-8"))
    assert list(Draft202012Validator(build_matrix_schema()).iter_errors(found)) == []
    return found


def list_calls(project: Path) -> list[str]:
    return (project / "order.txt").read_text().splitlines()


def test_variants_meet_each_case_at_the_same_time_and_are_told_apart(project: Path, page: "Page") -> None:
    done = evalgate(
        "matrix", "--vary", "env.MODEL=big,mini,nano", "-n", "4", "--concurrency", "1", cwd=project
    )

    assert done.code == 0, done.err
    assert "288 runs: 3 variants, 24 cases, 4 runs each." in done.err
    order = (project / "order.txt").read_text().splitlines()
    groups = [order[at : at + 3] for at in range(0, len(order), 3)]
    assert all(len({line.split()[0] for line in each}) == 1 for each in groups)
    assert all({line.split()[1] for line in each} == {"big", "mini", "nano"} for each in groups)
    assert {each[0].split()[1] for each in groups} == {"big", "mini", "nano"}

    found = read_matrix(done)
    assert [(row["name"], row["passed"], row["runs"]) for row in found["variants"]] == [
        ("big", 96, 96),
        ("mini", 96, 96),
        ("nano", 48, 96),
    ]
    assert [row["pass_k"] for row in found["variants"]] == [1.0, 1.0, 0.5]
    mini, nano = found["comparisons"]
    assert nano["scores"]["response_match_score"]["conclusion"] == "worse"
    assert mini["scores"]["response_match_score"]["conclusion"] == "not_worse"
    assert mini["ratios"]["cost"]["value"] == pytest.approx(0.25)
    assert [case["eval_id"] for case in found["cases"][:12]] == [f"case_{at}" for at in range(1, 24, 2)]
    assert found["winner"] == "mini"
    assert "mini is preferable to big. It was chosen by these runs" in done.out
    assert "is not worse by 5 points or more (at most " in done.out
    assert re.search(
        r"nano compared with big:\n  response_match_score is worse: 0.5\d instead of 1.00", done.out
    )
    assert done.out.endswith("It is no gate, and its runs are never a baseline.\n")

    suites = ET.parse(project / "evalgate-report/matrix-junit.xml").getroot()
    assert [(each.get("name"), each.get("skipped"), each.get("failures")) for each in suites] == [
        ("big", "0", "0"),
        ("mini", "0", "0"),
        ("nano", "12", "0"),
    ]
    text = (project / "evalgate-report/matrix.md").read_text("utf-8")
    assert "| `nano` | 48/96 | 50% |" in text
    page.goto((project / "evalgate-report/matrix.html").as_uri())
    assert page.locator("h1").inner_text() == "3 variants, 24 cases, 288 runs"
    assert page.locator("section:has(#cases) tbody tr").count() == 24
    assert find_violations(page) == []
    save_picture(page, "matrix")
    page.set_viewport_size({"width": 390, "height": 800})
    assert not has_sideways_scroll(page)
    page.get_by_role("link", name="nano").click()
    assert "response_match_score is 0.50" in page.locator("h1").inner_text()


def test_every_variant_has_a_record_that_commands_read_and_that_is_no_baseline(project: Path) -> None:
    done = evalgate(
        "matrix", "--vary", "env.MODEL=nano,big", "-n", "1", "-k", "case_1 or case_2", cwd=project
    )
    assert done.code == 0, done.err

    folder = "evalgate-report/variants"
    record = json.loads((project / folder / "2-big/results.json").read_text("utf-8"))
    assert record["variant"] == {"env.MODEL": "big"}
    compared = evalgate(
        "compare", f"{folder}/2-big/results.json", f"{folder}/1-nano/results.json", cwd=project
    )
    assert "case_1" in compared.out
    saved = evalgate("baseline", "save", f"{folder}/2-big/results.json", cwd=project)
    assert saved.code == 2
    assert "is a variant of `evalgate matrix` (env.MODEL=big)" in saved.err


def test_a_matrix_removes_what_an_earlier_one_wrote_and_nothing_else(project: Path) -> None:
    folder = project / "evalgate-report/variants"
    few = ("-n", "1", "-k", "case_1")
    confirmed = evalgate(
        "matrix", "--vary", "env.MODEL=nano,big", "-n", "3", "--confirm", "--yes", cwd=project
    )
    assert (folder / "2-big/confirmation/results.json").is_file(), confirmed.err
    stopped = evalgate(
        "matrix", "--vary", "env.MODEL=luna,nova", "--concurrency", "1", cwd=project, INTERRUPT="say 9"
    )
    assert stopped.code == 130
    assert not (folder / "1-nano").exists()
    assert not (folder / "2-big").exists()
    (folder / "7-mine").mkdir()
    (folder / "notes").mkdir()
    (folder / "notes/results.json").write_text("{}")
    (folder / "2024-prod").mkdir()
    (folder / "2024-prod/results.json").write_text("{}")
    (project / "elsewhere").mkdir()
    (project / "elsewhere/results.json").write_text("{}")
    (folder / "8-link").symlink_to(project / "elsewhere")

    done = evalgate("matrix", "--vary", "env.MODEL=big,mini,nano", *few, cwd=project)

    assert done.code == 0, done.err
    assert {each.name: sorted(file.name for file in each.iterdir()) for each in folder.iterdir()} == {
        "1-big": ["report.html", "results.json"],
        "2-mini": ["report.html", "results.json"],
        "3-nano": ["report.html", "results.json"],
        "1-luna": ["journal.jsonl"],  # `--resume` needs it
        "2-nova": ["journal.jsonl"],
        "7-mine": [],
        "8-link": ["results.json"],
        "notes": ["results.json"],
        "2024-prod": ["results.json"],
    }


@pytest.mark.parametrize(
    "content", [None, "[", "[]", '{"variants": [{"results": "variants/1-a/../results.json"}, 3]}']
)
def test_a_matrix_that_is_no_list_of_variants_removes_none(tmp_path: Path, content: str | None) -> None:
    mine = tmp_path / "variants/1-a/results.json"
    mine.parent.mkdir(parents=True)
    mine.write_text("{}")
    if content is None:
        os.mkfifo(tmp_path / "matrix.json")  # reading it would wait for a writer
    else:
        (tmp_path / "matrix.json").write_text(content)

    remove_matrix(GuardedFolder.open_ancestor(tmp_path, tmp_path))

    assert mine.exists()


def test_a_winner_is_confirmed_by_fresh_runs_of_it_and_the_reference(project: Path) -> None:
    done = evalgate(
        "matrix", "--vary", "env.MODEL=nano,big,mini", "-n", "2", "--confirm", "--yes", cwd=project
    )

    assert done.code == 0, done.err
    found = read_matrix(done)
    again = found["confirmation"]
    assert [row["name"] for row in again["variants"]] == ["nano", found["winner"]]
    assert len((project / "order.txt").read_text().splitlines()) == 24 * 2 * (3 + 2)
    assert f"Fresh runs confirm that {found['winner']} is preferable to nano; only they count." in done.out
    fresh = project / "evalgate-report" / again["variants"][1]["results"]
    assert json.loads(fresh.read_text("utf-8"))["totals"]["cases"] == 24


def test_what_stops_a_matrix_is_said_and_what_was_measured_is_kept(project: Path) -> None:
    stopped = evalgate(
        "matrix", "--vary", "env.MODEL=big,nano", "--concurrency", "1", cwd=project, INTERRUPT="say 9"
    )
    assert stopped.code == 130
    assert "Interrupted: these are the runs that were made until then." in stopped.out
    assert "No variant is shown" in stopped.out or "preferable" in stopped.out
    found = read_matrix(stopped)
    assert sum(row["runs"] for row in found["variants"]) == 18
    assert "15 cases without a run of every variant" in found["notices"][0]

    assert "Continue this run with: evalgate matrix --vary env.MODEL=big,nano --concurrency 1 --resume" in (
        stopped.err
    )
    resume = ("matrix", "--vary", "env.MODEL=big,nano", "--concurrency", "1", "--resume")
    other = evalgate("matrix", "--vary", "env.MODEL=big,mini", "--resume", cwd=project)
    assert (other.code, "variants/2-mini/journal.jsonl: there is no run to resume" in other.err) == (2, True)
    resumed = evalgate(*resume, cwd=project)
    assert resumed.code == 0, resumed.err
    assert "126/126" in resumed.err
    assert sum(row["runs"] for row in read_matrix(resumed)["variants"]) == 144
    assert len(list_calls(project)) == 144 + 1  # the run that was cut off is made again
    again = evalgate(*resume, cwd=project)
    assert (again.code, "there is no run to resume" in again.err) == (2, True)


def test_a_budget_counts_what_an_earlier_part_of_the_matrix_spent_once(project: Path) -> None:
    rules = (project / "evalgate.yaml").read_text()
    (project / "evalgate.yaml").write_text(rules + "budget: {usd: 0.05}\n")
    spent = evalgate("matrix", "--vary", "env.MODEL=big,nano", "--concurrency", "1", "--confirm", cwd=project)
    assert spent.code == 3
    assert re.search(r"The budget of \$0.05 is spent: \d+ of 144 runs were made\.", spent.out)
    assert read_matrix(spent)["confirmation"] is None
    made = len(list_calls(project))
    resume = ("matrix", "--vary", "env.MODEL=big,nano", "--concurrency", "1", "--resume")
    assert evalgate(*resume, cwd=project).code == 3
    assert len(list_calls(project)) == made
    (project / "evalgate.yaml").write_text(rules + "budget: {usd: 0.1}\n")
    assert evalgate(*resume, cwd=project).code == 3
    assert 1.8 * made < len(list_calls(project)) < 2.2 * made


def test_an_agent_that_does_not_read_the_variable_is_noticed(project: Path) -> None:
    done = evalgate("matrix", "--vary", "env.OTHER=a,b", "-n", "1", cwd=project, MODEL="big")
    assert done.code == 0  # the agent crashes in every run without MODEL, which is not passed on
    assert "Every variant gave the same replies: does the agent read `env.OTHER`?" in done.out
    assert "No variant is shown to be preferable to a." in done.out


def test_variants_whose_values_join_to_the_same_text_have_names_of_their_own(project: Path) -> None:
    done = evalgate(
        "matrix", "--vary", "env.A=a,a/b", "--vary", "env.B=b/c,c", "-n", "1", "-k", "case_1", cwd=project
    )
    assert done.code == 0, done.err
    found = read_matrix(done)
    names = ['"a"/"b/c"', '"a"/"c"', '"a/b"/"b/c"', '"a/b"/"c"']
    assert [row["name"] for row in found["variants"]] == names
    assert all(sorted(case["passed"]) == sorted(names) for case in found["cases"])


def test_runs_that_are_missing_are_said_and_nothing_is_confirmed_by_the_rest(project: Path) -> None:
    (project / "busy.py").write_text(
        "import os\nbusy = []\n"
        "class RateLimitError(Exception):\n    status_code = 429\n"
        "def answer(text):\n"
        "    if os.environ['MODEL'] == 'big' and text.endswith('7'):\n        raise RateLimitError('busy')\n"
        "    return 'hello ' + text.split()[-1] if os.environ['MODEL'] == 'big' else 'no'\n"
    )
    command = ("matrix", "--vary", "env.MODEL=nano,big", "-n", "1", "--confirm")
    (project / "evalgate.yaml").write_text(
        (project / "evalgate.yaml").read_text().replace("agent: {", "agent: {retries: 0, ")
    )
    done = evalgate(*command, "--agent", "python:busy.py:answer", cwd=project)
    assert done.code == 3, done.out
    assert "2 of 48 runs could not be made or scored." in done.out
    assert read_matrix(done)["confirmation"] is None
    assert "By the runs that were made, big is preferable to nano. Choose by a matrix without" in done.out
    assert "--confirm" not in done.out

    (project / "closed.py").write_text(
        "import os\nif os.environ['MODEL'] == 'nano': raise SystemExit('shut')\n"
    )
    with (project / "closed.py").open("a") as file:
        file.write("import time\ndef answer(text):\n    time.sleep(0.01)\n    return 'no'\n")
    words = ("--vary", "env.MODEL=big,nano,mini", "-n", "1", "--concurrency", "2")
    done = evalgate("matrix", *words, "--agent", "python:closed.py:answer", cwd=project)
    assert done.code == 3
    assert "The agent of `nano` could not be reached, so other runs were not made: " in done.out
    assert "No run of `nano` was made." in done.out
    found = read_matrix(done)
    made = sum(runs for case in found["cases"] for _, runs in case["passed"].values())
    assert 0 < made < 72
    assert f"MATRIX  3 variants, 24 cases, {made} of 72 runs" in done.out
    big, nano, _ = found["variants"]
    assert big["runs"] > 0 == nano["runs"]
    assert "without a run of every variant but `nano`: left out of the table." in done.out
    assert "gave the same replies" not in done.out


def test_a_matrix_without_a_case_that_counts_is_refused(project: Path) -> None:
    command = ("matrix", "--vary", "env.MODEL=big,mini")
    path = project / "s.evalset.json"
    (project / "s.cases.yaml").write_text("cases: {case_1: {status: observed}}\n")
    observed = evalgate(*command, "s.evalset.json:case_1", cwd=project)
    assert observed.code == 2
    assert "no case to compare variants on: all are quarantined, or observed" in observed.err
    (project / "s.cases.yaml").unlink()
    path.write_text(json.dumps({"evalSetId": "s", "evalCases": []}))
    empty = evalgate(*command, cwd=project)
    assert empty.code == 2
    assert "no case to compare variants on: the eval sets are empty" in empty.err
    assert not (project / "order.txt").exists()


def test_times_that_equal_agents_may_have_are_not_compared(project: Path) -> None:
    (project / "quick.py").write_text("def answer(text):\n    return 'hello'\n")
    command = ("matrix", "--vary", "env.A=1,2", "-n", "1", "--agent", "python:quick.py:answer")
    done = evalgate(*command, "--concurrency", "1", cwd=project)
    assert done.code == 0
    assert read_matrix(done)["comparisons"][0]["ratios"] == {}


def test_values_that_hold_a_secret_are_refused_before_they_name_a_folder(project: Path) -> None:
    masks = ("--mask", "first-s3cret", "--mask", "second-s3cret")
    done = evalgate("matrix", "--vary", "env.A=first-s3cret,second-s3cret", *masks, cwd=project)
    assert done.code == 2
    assert "--vary env.A: a value holds a secret" in done.err
    assert "s3cret" not in done.err
    assert not (project / "evalgate-report").exists()


def test_keys_of_the_agent_vary_too(project: Path) -> None:
    (project / "other.py").write_text("def answer(text):\n    return 'hello ' + text.split()[-1]\n")
    (project / "plain.py").write_text("def answer(text):\n    return 'no'\n")
    done = evalgate("matrix", "--vary", "agent.entry=plain.py:answer,other.py:answer", "-n", "1", cwd=project)
    assert done.code == 0, done.err
    rows = read_matrix(done)["variants"]
    assert [(row["name"], row["passed"]) for row in rows] == [("plain.py:answer", 0), ("other.py:answer", 24)]
    assert rows[0]["usage"]["cost"] is None

    assert evalgate("run", "--agent", "python:other.py:answer", cwd=project, MODEL="big").code == 0
    assert evalgate("baseline", "save", cwd=project).code == 0
    entries = "agent.entry=plain.py:answer,other.py:answer"
    told = evalgate("matrix", "--vary", entries, "-n", "1", cwd=project).err
    assert "48 runs: 2 variants, 24 cases, 1 run each." in told
    assert "the agent of the baseline" not in told
    assert "No estimate of the cost: the runs of the baseline do not report what the agent used." in told
    # `--agent` names the agent of every variant, also if the thresholds file names another one.
    other = ("--agent", "python:other.py:answer")
    named = evalgate("matrix", *other, "--vary", "agent.timeout=50,60", "-n", "1", cwd=project, MODEL="nano")
    assert [row["passed"] for row in read_matrix(named)["variants"]] == [24, 24]
    both = evalgate("matrix", *other, "--vary", entries, "--vary", "agent.timeout=50", "-n", "1", cwd=project)
    assert [row["passed"] for row in read_matrix(both)["variants"]] == [0, 24]
    absent = evalgate("matrix", "--vary", "agent.entry=plain.py:answer,gone.py:f", cwd=project)
    assert absent.code == 2
    assert "variant gone.py:f: cannot load the agent" in absent.err


def test_the_commands_of_the_page_work(project: Path) -> None:
    assert len(COMMANDS) == 3
    for command in COMMANDS:
        done = evalgate(
            *shlex.split(command), "-k", "case_1 or case_2", "--env", "MODEL", cwd=project, MODEL="big"
        )
        assert (done.code, "MATRIX  " in done.out) == (0, True), done.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("MODEL=a,b", "must be env.NAME=VALUE,VALUE or agent.KEY=VALUE,VALUE"),
        ("env.MODEL", "must be env.NAME=VALUE,VALUE or agent.KEY=VALUE,VALUE"),
        ("env.MODEL=a,a", "`a` is given twice"),
        ("env.MODEL=a,b\nc", "must be UTF-8 text on one line"),
        ('env.MODEL=a,"b', "each value with both of its quotes or none"),
        ("env.MODEL=a,\udcff", "must be UTF-8 text"),
        ("env.MY-VAR=a,b", "`MY-VAR` is no name of a variable"),
        ("env.OPENAI_API_KEY=a,b", "looks like a secret"),
        ("env.ACTIONS_RUNTIME_TOKEN=a,b", "is never given to the agent"),
        ("agent.concurrency=1,2", "all variants share `agent.concurrency`"),
    ],
)
def test_a_variation_that_cannot_be_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        parse_variations([text])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("env.MY_API_KEY=correct-horse,battery-staple", "looks like a secret"),
        ("MY_API_KEY=correct-horse,battery-staple", "must be env.NAME="),
        ("agent.api_key=correct-horse,correct-horse", "a value is given twice"),
        ('agent.api_key=correct-horse,"b', "each value with both of its quotes"),
    ],
)
def test_a_value_of_a_secret_is_not_repeated(text: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message) as caught:
        parse_variations([text])
    assert "horse" not in str(caught.value)


def test_values_may_hold_commas_and_come_in_parts() -> None:
    assert parse_variations(['env.A=x, "y,z"', "env.B=1", "env.A=w"]) == (
        Variation("env.A", ("x", "y,z", "w")),
        Variation("env.B", ("1",)),
    )
    assert parse_variations(["env.A=", "env.A=x"]) == (Variation("env.A", ("", "x")),)


def test_one_variant_and_unknown_keys_are_refused(project: Path) -> None:
    for vary, message in (
        ("env.MODEL=big", "one variant has nothing to be compared with"),
        ("agent.entyr=a,b", "has no `entyr`. Did you mean `entry`?"),
        ("agent.timeout=5,x", "--vary agent.timeout=x: must be a number"),
    ):
        done = evalgate("matrix", "--vary", vary, cwd=project)
        assert done.code == 2
        assert message in done.err


def test_the_published_schema_is_in_step(request: pytest.FixtureRequest) -> None:
    expected = json.dumps(build_matrix_schema(), indent=2) + "\n"
    if request.config.getoption("--update-golden"):
        SCHEMA.write_text(expected, "utf-8")
    assert SCHEMA.read_text("utf-8") == expected


def test_the_records_of_variants_are_not_written_through_a_link_of_the_agent(project: Path) -> None:
    (project / "elsewhere").mkdir()
    (project / "agent.py").write_text(
        "import os\n\ndef answer(text):\n    folder = 'evalgate-report/variants'\n"
        "    if not os.path.islink(folder):\n        os.rename(folder, f'{folder}.old')\n"
        "        os.symlink(os.path.abspath('elsewhere'), folder)\n    return 'hello'\n"
    )

    done = evalgate("matrix", "--vary", "env.MODEL=big,mini", "-n", "1", "--workers", "1", cwd=project)

    assert done.code == 2, done.out
    assert "variants was replaced by a link or a file during the run" in done.err
    assert list((project / "elsewhere").iterdir()) == []
