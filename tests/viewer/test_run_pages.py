"""Cases are run from the page: chosen, watched, stopped, and opened as a record."""

import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from starlette.testclient import TestClient

from evalgate.datasets.results_io import read_record
from evalgate.reporting.results_history import list_results
from evalgate.viewer.state import Viewer
from tests.browser import find_violations, has_sideways_scroll, save_picture
from tests.viewer.serving import create_viewer, open_client, serve_viewer

if TYPE_CHECKING:
    from playwright.sync_api import Page

AGENT = """
import pathlib, time

def answer(text):
    while text == "slow" and not pathlib.Path("go").exists():
        time.sleep(0.05)
    return {"a": "The parcel is late", "slow": "Done"}.get(text, "Sorry")
"""
METRIC = "response_match_score"


def build_case(eval_id: str, text: str, expected: str) -> dict[str, object]:
    return {
        "eval_id": eval_id,
        "conversation": [
            {"user_content": {"parts": [{"text": text}]}, "final_response": {"parts": [{"text": expected}]}}
        ],
    }


def write_project(folder: Path) -> Path:
    cases = [
        build_case("parcel", "a", "The parcel is late today"),
        build_case("slow", "slow", "Done"),
        build_case("a/b <i>,:", "c", "Sorry"),
    ]
    (folder / "agent.py").write_text(AGENT)
    (folder / "one.evalset.json").write_text(json.dumps({"eval_set_id": "one", "eval_cases": cases}))
    config = {
        "agent": {"entry": "agent.py:answer"},
        "eval_sets": ["one.evalset.json"],
        "criteria": {METRIC: 0.95, "tool_trajectory_avg_score": 1.0},
    }
    (folder / "evalgate.yaml").write_text(yaml.safe_dump(config))
    return folder


@pytest.fixture
def viewer(tmp_path: Path) -> Viewer:
    return create_viewer(write_project(tmp_path))


def post(client: TestClient, viewer: Viewer, path: str, **fields: object) -> object:
    return client.post(path, data={"csrf": viewer.access.csrf_token, **fields})


def start(client: TestClient, viewer: Viewer, *cases: str, **fields: object) -> str:
    given = {"metric": METRIC, f"threshold:{METRIC}": "0.5", "case": list(cases), **fields}
    answer = client.post("/run", data={"csrf": viewer.access.csrf_token, **given})
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"])


def wait_for_end(client: TestClient, path: str) -> str:
    for _ in range(600):
        text = client.get(path).text
        if 'data-over="yes"' in text:
            return text
        time.sleep(0.1)
    raise AssertionError(text)


def test_without_a_thresholds_file_the_sets_and_adk_agents_of_the_folder_are_run(tmp_path: Path) -> None:
    write_project(tmp_path)
    (tmp_path / "evalgate.yaml").unlink()
    for name in ("desk", "shop"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "agent.py").write_text("root_agent = None\n")
    viewer = create_viewer(tmp_path)
    with open_client(viewer) as client:
        form = client.get("/run").text
        assert re.findall(r'name="case" value="(.*?)"', form)[:2] == ["one/parcel", "one/slow"]
        assert re.findall(r'<option value="(.*?)"', form) == ["desk", "shop"]
        assert "by default 0.8" in form
        assert '<option value="shop" selected>adk:shop' in client.get("/run?agent=shop").text
        wrong = post(client, viewer, "/run", agent="gone", metric=METRIC, case="one/parcel")
        assert "there is no agent" in getattr(wrong, "text", "")

        (tmp_path / "evalgate.yaml").write_text("agent: {entry: 'agent.py:answer'}\n")
        form = client.get("/run").text
        assert ("<option" in form, "the agent of the thresholds file" in form) == (False, True)


def test_chosen_cases_run_with_own_thresholds_and_become_a_record(tmp_path: Path, viewer: Viewer) -> None:
    with open_client(viewer) as client:
        form = client.get("/run?q=parcel").text
        assert "one/parcel" in form
        assert "one/slow" not in form
        text = wait_for_end(client, start(client, viewer, "one/parcel", "one/a%2Fb%20%3Ci%3E%2C%3A"))
        assert "2 of 2" in text
        assert ">Gate open</span>" in text
        again = wait_for_end(
            client, start(client, viewer, which="all", q="parcel", **{f"threshold:{METRIC}": "0.95"})
        )
        assert ">Gate closed</span>" in again
        case = client.get(f"/records/{list_results(tmp_path)[0].result_id}/case?in=one&id=parcel").text
        assert 'href="/run?case=one%2Fparcel&amp;q=parcel"' in case
        assert 'value="one/parcel" checked' in client.get("/run?case=one%2Fparcel&q=parcel").text

        overview = client.get(f"/records/{list_results(tmp_path)[0].result_id}").text
        older_id, newer_id = (each.result_id for each in reversed(list_results(tmp_path)))
        if older_id[:16] != newer_id[:16]:  # the runs began in different seconds
            assert f"/compare?a={older_id}&amp;b={newer_id}" in overview
        assert "/sets/view?file=one.evalset.json" in overview
        rows = client.get(f"/run?record={older_id}&list=q%3Dparcel").text
        assert re.findall(r'name="case" value="(.*?)"( checked)?', rows) == [("one/parcel", " checked")]
        rows = client.get(f"/run?record={older_id}&q=a%2Fb").text
        assert re.findall(r'name="case" value="(.*?)"', rows) == ["one/a%2Fb%20%3Ci%3E%2C%3A"]
        assert "1 case of the result is not shown" in rows
        kept = wait_for_end(
            client, start(client, viewer, which="all", record=older_id, list="q=parcel", q="")
        )
        assert "1 of 1" in kept

    (_, newer, older) = (read_record(each.path, "kept") for each in list_results(tmp_path))
    assert [case.eval_id for case in older.cases] == ["parcel", "a/b <i>,:"]
    assert [(each.name, each.threshold) for each in older.metrics] == [(METRIC, 0.5)]
    assert [case.eval_id for case in newer.cases] == ["parcel"]
    assert not (tmp_path / "evalgate-report/results.json").exists()


def test_each_eval_set_keeps_its_own_threshold(tmp_path: Path) -> None:
    config = yaml.safe_load((write_project(tmp_path) / "evalgate.yaml").read_text())
    del config["criteria"]
    for name, threshold in (("strict", 0.95), ("lax", 0.5)):
        (tmp_path / name).mkdir()
        cases = [build_case("parcel", "a", "The parcel is late today")]
        (tmp_path / name / "a.json").write_text(json.dumps({"eval_set_id": name, "eval_cases": cases}))
        (tmp_path / name / "test_config.json").write_text(json.dumps({"criteria": {METRIC: threshold}}))
    config["eval_sets"] = ["strict/a.json", "lax/a.json"]
    (tmp_path / "evalgate.yaml").write_text(yaml.safe_dump(config))
    viewer = create_viewer(tmp_path)
    with open_client(viewer) as client:
        assert "in the file 0.95, 0.5: left empty, each eval set keeps its own" in client.get("/run").text
        for typed in ("", "0.5"):
            wait_for_end(client, start(client, viewer, which="all", **{f"threshold:{METRIC}": typed}))

    (newer, older) = (read_record(each.path, "kept") for each in list_results(tmp_path))
    assert [each.threshold for each in older.metrics] == [0.95, 0.5]
    assert (older.verdict.status, newer.verdict.status) == ("fail", "pass")


def test_one_run_at_a_time_which_can_be_stopped(tmp_path: Path, viewer: Viewer) -> None:
    with open_client(viewer) as client:
        path = start(client, viewer, "one/slow", "one/parcel")
        refused = client.post(
            "/run",
            data={
                "csrf": viewer.access.csrf_token,
                "metric": METRIC,
                f"threshold:{METRIC}": "1",
                "case": "one/slow",
            },
        )
        assert (refused.status_code, "run 1 is in progress" in refused.text) == (422, True)
        assert 'http-equiv="refresh"' in client.get(path).text
        assert client.post(f"{path}/cancel").status_code == 403
        post(client, viewer, f"{path}/cancel")
        text = wait_for_end(client, path)
        assert "Stopped" in text
        assert "Open the results" in text
        started = start(client, viewer, "one/slow")
    # The server has ended, and so has the run: what was begun is in the record.
    assert started == "/runs/2"
    assert len(list_results(tmp_path)) == 2


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "no case was chosen"),
        ({"case": "one/gone"}, "there is no case"),
        ({"case": "one/slow", "metric": []}, "no metric was chosen"),
        ({"case": "one/slow", f"threshold:{METRIC}": "2"}, "must be between 0 and 1"),
        *[
            ({"case": "one/slow", f"threshold:{METRIC}": each}, "is no number")
            for each in ("nan", "٠.٥", "0_1")
        ],
    ],
)
def test_a_wrong_choice_is_told_and_kept(viewer: Viewer, fields: dict[str, object], message: str) -> None:
    with open_client(viewer) as client:
        given = {"metric": METRIC, f"threshold:{METRIC}": "0.5", **fields}
        answer = client.post("/run", data={"csrf": viewer.access.csrf_token, **given})
        assert answer.status_code == 422
        assert message in answer.text
        for number in ("1", "0", "x", "9" * 5000):
            assert client.get(f"/runs/{number}").status_code == 404


def test_without_an_agent_the_page_says_what_is_missing(tmp_path: Path) -> None:
    with open_client(create_viewer(tmp_path)) as client:
        text = client.get("/run").text
    assert "Nothing can be run here yet" in text


def test_two_cases_are_run_in_a_browser(page: "Page", tmp_path: Path) -> None:
    with serve_viewer(write_project(tmp_path)) as address:
        root = address.partition("/?")[0]
        page.goto(address)
        page.get_by_role("link", name="Run", exact=True).click()
        page.get_by_label("parcel", exact=True).check()
        page.get_by_label("slow", exact=True).check()
        slider = page.get_by_label(f"Threshold of {METRIC}, slider")
        slider.focus()
        for _ in range(15):
            slider.press("ArrowLeft")
        assert page.get_by_label(f"Threshold of {METRIC}", exact=True).input_value() == "0.8"
        look_at(page, "run-form")
        page.get_by_role("button", name="Run", exact=True).press("Enter")
        page.wait_for_url("**/runs/1")
        page.get_by_role("heading", name="1 of 2 runs").wait_for()
        look_at(page, "run-progress")
        (tmp_path / "go").touch()
        page.get_by_role("heading", name="Done").wait_for()
        look_at(page, "run-done")
        page.get_by_role("link", name="Open the results").press("Enter")
        page.wait_for_url("**/records/*")
        assert "0.80" in page.locator("main").inner_text()
        assert page.url.startswith(f"{root}/records/2")


def look_at(page: "Page", name: str) -> None:
    """Check a page in both colour schemes, wide and narrow, and keep pictures."""
    page.emulate_media(color_scheme="light")
    assert find_violations(page) == []
    page.emulate_media(color_scheme="dark")
    assert find_violations(page, "color-contrast") == []
    page.set_viewport_size({"width": 360, "height": 740})
    assert not has_sideways_scroll(page)
    save_picture(page, f"view-{name}-360")
    page.set_viewport_size({"width": 1280, "height": 800})
    page.emulate_media(color_scheme="light")
    save_picture(page, f"view-{name}-1280")


def test_a_budget_has_a_largest_figure_or_none_and_no_slider(tmp_path: Path) -> None:
    config = yaml.safe_load((write_project(tmp_path) / "evalgate.yaml").read_text())
    config["criteria"] |= {"budget/turns": 4, "budget/tool_calls": {"max_increase": 0.1}}
    (tmp_path / "evalgate.yaml").write_text(yaml.safe_dump(config))
    client = open_client(create_viewer(tmp_path))
    forms = client.get("/run").text.split('<div class="threshold">')
    turns, calls = (next(each for each in forms if name in each) for name in ("budget/turns", "budget/tool"))
    assert "at most <input" in turns
    assert 'value="4"' in turns
    assert "no limit in the file" in calls
    assert "data-step" not in turns + calls.partition("</section>")[0]


def test_the_progress_says_of_each_run_what_the_record_says_of_it(tmp_path: Path) -> None:
    write_project(tmp_path)
    (tmp_path / "go").touch()
    (tmp_path / "judges.py").write_text(
        "def judge(case, run):\n"
        "    if case.eval_id == 'slow':\n"
        "        raise ValueError('the judge is down')\n"
        "    return 0.79996\n"
    )
    config = yaml.safe_load((tmp_path / "evalgate.yaml").read_text())
    config["criteria"] = {"judge": 0.8, METRIC: {"threshold": 1, "gates": False}, "budget/turns": 1_000}
    config["custom_metrics"] = {"judge": "judges.py:judge"}
    config["cases"] = [{"ids": "one:parcel", "criteria": {"judge": 0.7}}]
    (tmp_path / "evalgate.yaml").write_text(yaml.safe_dump(config))
    viewer = create_viewer(tmp_path)
    with open_client(viewer) as client:
        thresholds = {"threshold:judge": "0.8", "threshold:budget/turns": "1000"}
        chosen: dict[str, object] = {"metric": ["judge", METRIC, "budget/turns"], "which": "all"}
        page = wait_for_end(client, start(client, viewer, **chosen, **thresholds))

    (kept,) = list_results(tmp_path)
    statuses = {case.eval_id: case.status for case in read_record(kept.path, "kept").cases}
    assert statuses == {"parcel": "passed", "slow": "errored", "a/b <i>,:": "failed"}
    lines = {}
    for line in re.findall(r"<li><span class=\"pill.*?</li>", page):
        status, eval_id, words = re.findall(r"<(?:span|code)[^>]*>(.*?)</(?:span|code)>", line)
        lines[eval_id.replace("<wbr>", "")] = (status, words.partition("s, ")[2])
    assert lines["parcel"] == ("pass", f"budget/turns 1, judge 0.80, {METRIC} 0.89")
    assert lines["a/b &lt;i&gt;,:"] == ("fail", f"budget/turns 1, judge 0.79996, {METRIC} 1.00")
    assert lines["slow"][0] == "error"
    assert "judge errored: the metric raised" in lines["slow"][1]
    assert "the judge is down" in lines["slow"][1]
