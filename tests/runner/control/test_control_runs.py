"""A failure that the base commit has today as well is no fault of the change."""

import json
import re
from pathlib import Path

import pytest

from evalgate.config.loader import load_thresholds
from tests.commands import Done, evalgate
from tests.runner.control.projects import AGENT, PULL_REQUEST, Project, build_eval_set, build_settings, git

PAGE = (Path(__file__).parents[3] / "docs/control-runs.md").read_text("utf-8")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project.create(tmp_path_factory.mktemp("template"))


@pytest.fixture
def project(template: Project, tmp_path: Path) -> Project:
    return template.copy(tmp_path / "project")


def list_notes(done: Done) -> str:
    return "\n".join(done.record["notices"])


def test_a_drift_of_the_provider_opens_the_gate_and_is_recorded(project: Project) -> None:
    project.edit_agent("I cannot say", "No idea")
    project.set_provider("refund_late")
    done = project.run("--html", **PULL_REQUEST)
    assert done.code == 0, done.out + done.err
    base = git(project.folder, "rev-parse", "origin/main")
    record = done.record
    control = record["control"]
    assert (control["commit"], control["answer"]) == (base, "drifted")
    (case,) = [each for each in control["cases"] if each.get("answer")]
    assert [run["side"] for run in case["runs"]] == ["head", "control"] * 4
    counts = [case[f"{side}_{what}"] for side in ("head", "control") for what in ("runs", "failed")]
    assert counts == [4, 4, 4, 4]
    # Two passing cases showed that the control works here at all.
    assert control["runs"] == 10
    sentence = (
        "refund_late fails on main today as well (control 0 of 4, head 0 of 4 passed; 10 of 10 in the baseline): "
        "provider or backend drift, not your change. Refresh the baseline."
    )
    assert record["verdict"]["reasons"][0] == sentence
    assert sentence in done.out
    for report in ("comment.md", "junit.xml", "report.html"):
        text = (project.folder / "evalgate-report" / report).read_text("utf-8")
        assert "control 0 of 4, head 0 of 4 passed" in text.replace("\\_", "_"), report
    page = (project.folder / "evalgate-report" / "report.html").read_text("utf-8")
    table = page.partition('<h2 id="control">')[2].partition("</section>")[0]
    assert "10 runs of today" in table
    assert base[:12] in table
    assert re.findall(r"<td[^>]*>(drifted|0 of 4)</td>", table) == ["drifted", "0 of 4", "0 of 4", "drifted"]
    # The scores are those of the head's own runs, and so is the baseline.
    (scored,) = [each for each in record["cases"] if each["eval_id"] == "refund_late"]
    assert len(scored["runs"]) == 3
    saved = evalgate("baseline", "save", "--to", "new.json", "--allow-failing", cwd=project.folder)
    assert saved.code == 0, saved.err
    stored = json.loads((project.folder / "new.json").read_text("utf-8"))["cases"]
    assert {len(each["runs"]) for each in stored} == {1}
    again = evalgate("report", "evalgate-report/results.json", "--out", "again", cwd=project.folder)
    assert sentence in again.out, again.err
    compared = evalgate("compare", "baseline.json", "evalgate-report/results.json", cwd=project.folder)
    assert "refund_late broke" in compared.out, compared.out + compared.err
    assert "The control runs of the record are left out" in compared.out


def test_a_fault_of_the_change_closes_the_gate_after_four_pairs(project: Project) -> None:
    project.edit_agent("message in provider.split()", 'message == "refund_late"')
    done = project.run("--control", "HEAD^")
    assert done.code == 1, done.out + done.err
    assert done.record["control"]["runs"] == 8
    assert "refund_late broke: control 4 of 4, head 0 of 4 passed today." in done.out
    assert "score: its average was not compared with control runs" in list_notes(done)


def test_an_agent_that_moves_the_base_branch_gets_no_other_control(project: Project) -> None:
    move = (
        'import subprocess\n    subprocess.run(["git", "update-ref", "refs/remotes/origin/main", "HEAD"])\n'
    )
    project.write("agent.py", AGENT.replace("    provider =", f"    {move}    provider =", 1))
    project.write(
        "agent.py",
        (project.folder / "agent.py").read_text().replace("message in", "'f' in message or message in"),
    )
    project.commit("Move the base branch")
    done = project.run(**PULL_REQUEST)
    assert done.code == 1, done.out + done.err
    assert "refund_late broke: control 4 of 4, head 0 of 4 passed today." in done.out


def test_the_page_shows_settings_that_are_read_and_sentences_that_are_printed(project: Project) -> None:
    for snippet in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        path = project.folder / "page.yaml"
        path.write_text("version: 1\n" + snippet)
        assert load_thresholds(path, "page.yaml").config.gate.control.mode == "suspects"
    path.unlink()
    (command,) = re.findall(r"^evalgate (run .*)$", PAGE, re.MULTILINE)
    git(project.folder, "switch", "-q", "-c", "change")
    broke, drifted = re.findall(r"`(refund_late (?:fails on|broke:).*?)`", PAGE)
    project.edit_agent("I cannot say", "No idea")
    project.set_provider("refund_late")
    done = project.run(*command.split()[1:])
    assert (done.code, drifted in done.out) == (0, True), done.out + done.err
    project.edit_agent("message in provider.split()", 'message == "refund_late"')
    project.set_provider("fine")
    done = project.run(*command.split()[1:])
    assert (done.code, broke in done.out) == (1, True), done.out + done.err


def test_a_drift_does_not_hide_a_fault_of_the_change(project: Project) -> None:
    project.edit_agent("message in provider.split()", 'message == "order" or message in provider.split()')
    project.set_provider("refund_late")
    done = project.run("--runs", "4", **PULL_REQUEST)
    assert done.code == 1, done.out + done.err
    answers = {each["eval_id"]: each.get("answer") for each in done.record["control"]["cases"]}
    assert answers["order"] == "broke"
    assert answers["refund_late"] in ("drifted", "open")


def test_a_closed_gate_says_which_cases_fail_on_main_as_well(project: Project) -> None:
    project.edit_agent("message in provider.split()", 'message == "order" or message in provider.split()')
    project.set_provider("refund_late")
    done = project.run(**PULL_REQUEST)
    assert done.code == 1, done.out + done.err
    reasons = "\n".join(done.record["verdict"]["reasons"])
    assert "order broke: control 5 of 5, head 0 of 5 passed today." in reasons
    assert "score: order broke: failed" in reasons
    assert "refund_late fails on main today as well (control 0 of 5, head 0 of 5 passed;" in reasons
    assert "refund_late broke" not in done.out + reasons


def test_cases_of_several_eval_sets_are_named_with_their_set(project: Project) -> None:
    project.write("shop.evalset.json", build_eval_set().replace('"desk"', '"shop"'))
    project.write("evalgate.json", build_settings().replace('"desk.evalset.json"', '"*.evalset.json"'))
    project.commit("Add an eval set")
    assert project.run("--runs", "5").code == 0
    saved = evalgate("baseline", "save", "--to", "baseline.json", cwd=project.folder)
    assert saved.code == 0, saved.err
    project.commit("Baseline")
    project.make_base()
    project.set_provider("refund_late")
    done = project.run(**PULL_REQUEST)
    assert done.code == 0, done.out + done.err
    reasons = done.record["verdict"]["reasons"]
    assert [each.partition(" fails on main")[0] for each in reasons[:2]] == [
        "desk/refund_late",
        "shop/refund_late",
    ]


def test_an_average_that_fell_on_both_sides_is_a_drift_too(project: Project) -> None:
    project.edit_agent("I cannot say", "No idea")
    project.set_provider("refund_late hello order")
    done = project.run(**PULL_REQUEST)
    assert done.code == 0, done.out + done.err
    assert done.record["verdict"]["status"] == "pass", done.out
    assert "response_match_score is lower because of the cases that fail on main today as well." in done.out


def test_a_fault_that_main_has_already_may_be_no_drift(project: Project) -> None:
    project.edit_agent("message in provider.split()", 'message == "refund_late"')
    project.make_base()
    project.write("notes.txt", "")
    project.commit("Harmless")
    done = project.run(**PULL_REQUEST)
    assert done.code == 0, done.out + done.err
    (reason, *_) = done.record["verdict"]["reasons"]
    assert "provider or backend drift, or another change since the baseline, not yours." in reason


def test_the_anchor_does_not_blame_a_change_for_a_drift(project: Project) -> None:
    project.write("evalgate.json", build_settings(anchor="baseline.json@v1"))
    project.commit("Name an anchor")
    git(project.folder, "tag", "v1")
    project.make_base()
    project.edit_agent("I cannot say", "No idea")
    project.set_provider("refund_late")
    done = project.run("--runs", "3", **PULL_REQUEST)
    assert done.code == 0, done.out + done.err
    assert [each["outcome"] for each in done.record["anchor"]["metrics"]] == ["fell_before"]
    assert "The control runs do not show that this change takes part" in list_notes(done)
    project.set_provider("fine")
    project.edit_agent("message in provider.split()", 'message == "refund_late"')
    assert project.run("--runs", "3", **PULL_REQUEST).code == 1


def test_a_control_that_passes_nothing_explains_nothing(project: Project) -> None:
    # The base commit's agent needs a file that is not committed: no drift, although its runs fail alike.
    project.edit_agent(
        "provider = Path",
        'if not Path("secret").exists():\n        return "I cannot say"\n    provider = Path',
    )
    project.make_base()
    project.write("secret", "")
    project.set_provider("refund_late")
    done = project.run(**PULL_REQUEST)
    assert done.code == 1, done.out + done.err
    assert "control" not in done.record
    assert "the control passes nothing, not even hello, order" in list_notes(done).replace(
        "The control", "the control"
    )


def test_a_crash_that_only_the_control_has_is_no_drift(project: Project) -> None:
    project.edit_agent("provider = Path", 'Path("secret").read_text()\n    provider = Path')
    project.make_base()
    project.write("secret", "")
    project.set_provider("refund_late")
    done = project.run(**PULL_REQUEST)
    assert done.code == 1, done.out + done.err


def test_no_control_runs_without_need_or_by_a_shard(project: Project) -> None:
    project.edit_agent("I cannot say", "No idea")
    done = project.run(**PULL_REQUEST)
    assert (done.code, "control" in done.record) == (0, False)
    project.set_provider("refund_late")
    # A minimum of the mean closes the gate whatever the control does.
    settings = json.loads(build_settings())
    settings["criteria"]["response_match_score"] = {"threshold": 0.8, "min_mean": 0.9}
    project.write("evalgate.json", json.dumps(settings))
    done = project.run("--policy", "head", **PULL_REQUEST)
    assert (done.code, "control" in done.record, "ontrol" in list_notes(done)) == (1, False, False)
    # So does, outside of a pull request, an older baseline that the average fell below.
    project.set_provider("refund_late hello order")
    project.write("evalgate.json", build_settings(anchor={"baseline": "baseline.json"}))
    done = project.run("--control", "HEAD")
    assert [each["outcome"] for each in done.record["anchor"]["metrics"]] == ["fell"]
    assert (done.code, "control" in done.record, "ontrol" in list_notes(done)) == (1, False, False)


def test_a_gate_that_closes_without_a_baseline_says_why_there_is_no_control(project: Project) -> None:
    (project.folder / "baseline.json").unlink()
    project.edit_agent("Yes", "No")
    done = project.run("--control", "HEAD~1")
    assert (done.code, "control" in done.record) == (1, False), done.out + done.err
    assert "No control runs were made" in list_notes(done)
    project.edit_agent("No", "Yes")
    done = project.run("--control", "HEAD~1")
    assert (done.code, "ontrol" in list_notes(done)) == (0, False), done.out + done.err


def test_a_spent_budget_leaves_the_decision_to_the_baseline(project: Project) -> None:
    settings = json.loads(build_settings())
    settings["budget"] = {"tokens": 150}
    project.write("evalgate.json", json.dumps(settings))
    counted = (
        "import os\n"
        "def answer(message):\n"
        '    bad = message in open(os.environ["PROVIDER"]).read().split()\n'
        '    usage = {"input_tokens": 5, "output_tokens": 5}\n'
        '    return {"response": "I cannot say" if bad else f"Yes {message}", "usage": usage}\n'
    )
    project.write("agent.py", counted)
    project.commit("Count tokens")
    project.make_base()
    project.set_provider("refund_late")
    done = project.run("--runs", "3", **PULL_REQUEST)
    assert done.code == 1, done.out + done.err
    assert "The budget of 150 tokens is spent before they told anything." in list_notes(done)
