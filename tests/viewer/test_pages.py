"""The pages about a record, read through Starlette's test client."""

import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from evalgate.core.score_ranges import BUDGET_RANGE
from evalgate.core.types import (
    Attempt,
    ControlCase,
    ControlComparison,
    ControlMetric,
    Failure,
    Quarantine,
    RecordedCriterion,
    SamplingCost,
    Usage,
)
from tests.builders import a_case_result, a_record, a_run_result, a_summary
from tests.viewer.samples import EXPECTED, a_record_to_view, a_scored_case, a_scored_run
from tests.viewer.serving import create_viewer, open_client, write_record

RECORD = "/records/last"
CASE = f"{RECORD}/case?in=support&id=refund_late"


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    write_record(tmp_path / "evalgate-report/results.json", a_record_to_view())
    return open_client(create_viewer(tmp_path))


def read(client: TestClient, path: str) -> str:
    """The text of a page, without tags."""
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    main = answer.text.partition("<main")[2]
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", "", main)))


def links(client: TestClient, path: str) -> list[str]:
    return [unescape(each) for each in re.findall(r'href="([^"]+)"', client.get(path).text)]


def test_the_start_leads_to_the_last_run(client: TestClient) -> None:
    assert client.get("/").headers["location"] == RECORD


def test_a_broken_first_result_does_not_hide_the_others(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text('{"a":')
    write_record(tmp_path / "evalgate-report/results.json", a_record_to_view())
    client = open_client(create_viewer(tmp_path, "broken.json"))

    broken = client.get(client.get("/").headers["location"])

    assert (broken.status_code, "broken.json:1:5: is not JSON" in broken.text) == (404, True)
    main = broken.text.partition("<main")[2]
    assert re.findall(r'href="([^"]+)"', main) == ["/history"]
    assert RECORD in links(client, "/history")


def test_the_overview(client: TestClient) -> None:
    text = read(client, RECORD)
    assert "Gate closed" in text
    assert "support/refund_late fails since this change" in text
    assert "−0.15" in text
    assert "ValueError: no such order" in text
    assert "The agent gave 0 tokens for 1 run." in text
    assert "Compared with .evalgate/baseline.json" in text


@pytest.mark.parametrize(("path", "title"), [(RECORD, "Result"), ("/sets/new", "Eval sets"), ("/run", "Run")])
def test_the_navigation_marks_the_part_of_the_page(client: TestClient, path: str, title: str) -> None:
    bar = client.get(path).text.partition("</header>")[0]
    assert re.findall(r"<a [^>]*aria-current[^>]*>([^<]*)<", bar) == [title]


def test_groups_of_cases_lead_to_their_list(tmp_path: Path) -> None:
    record = a_record_to_view()
    first = record.cases[0]
    others = [replace(first, eval_id=name, tags=("billing",)) for name in ("refund_2", "refund_3")]
    record = replace(record, cases=(*record.cases, *others), effort=SamplingCost(9, 25, 16))
    write_record(tmp_path / "evalgate-report/results.json", record)
    client = open_client(create_viewer(tmp_path))
    text = read(client, RECORD)
    assert "The newly failing case, and 2 others: issue_refund with another amount" in text
    assert "Eval set support 4 orders 4" in text
    found = [each for each in links(client, RECORD) if "/cases?" in each]
    for field, size in (
        ("divergence=", 3),
        ("tag=billing", 3),
        ("set=orders", 4),
        ("change=newly_passing", 1),
    ):
        (path,) = [each for each in found if f"?{field}" in each]
        assert client.get(path).text.count("case-link") == size
    cause = next(each for each in found if "?cause=" in each)
    assert client.get(cause).text.count("case-link") == 2
    assert "16 saved by runs: auto" in text


def test_a_case_that_does_not_gate_is_in_no_list_of_changes(tmp_path: Path) -> None:
    record = a_record_to_view()
    about = Quarantine("anna", "slow", "2027-01-01")
    kept_out = (
        replace(record.cases[0], eval_id="refund_2", quarantine=about),
        replace(record.cases[2], eval_id="order_9", quarantine=about),
        replace(record.cases[2], eval_id="order_10", observed=True),
        a_case_result("no_judge", "not_evaluated"),
    )
    assert record.comparison is not None
    change = replace(record.comparison.changes[0], eval_id="refund_2")
    comparison = replace(record.comparison, changes=(*record.comparison.changes, change), unchanged=6)
    record = replace(record, cases=(*record.cases, *kept_out), comparison=comparison)
    write_record(tmp_path / "evalgate-report/results.json", record)
    client = open_client(create_viewer(tmp_path))

    text = read(client, RECORD)
    assert "1 newly failing, 1 newly passing, 4 unchanged, 2 quarantined, 1 observed" in text
    assert "Change newly failing 1 newly passing 1" in text
    for kind, size in (("newly_failing", 1), ("newly_passing", 1), ("unchanged", 4), ("any", 2)):
        assert client.get(f"{RECORD}/cases?change={kind}").text.count("case-link") == size, kind


def test_every_link_works(client: TestClient) -> None:
    seen: set[str] = set()
    waiting = [RECORD]
    while waiting and len(seen) < 150:
        path = waiting.pop()
        if path in seen or not path.startswith("/") or path.startswith("/static"):
            continue
        seen.add(path)
        answer = client.get(path)
        assert answer.status_code in {200, 303}, path
        waiting += [unescape(each) for each in re.findall(r'href="([^"]+)"', answer.text)]
    assert len(seen) > 30


def test_a_case_can_be_edited_if_its_eval_set_is_there(client: TestClient, tmp_path: Path) -> None:
    assert not [each for each in links(client, CASE) if each.startswith("/edit")]
    gone = client.get("/edit?set=support&path=evals/travel.evalset.json&case=refund_late")
    assert "and there is no file evals/travel.evalset.json" in unescape(gone.text)

    path = tmp_path / "evals/other.evalset.json"
    path.parent.mkdir()
    turn = {"user_content": {"parts": [{"text": "Refund!"}]}}
    case = {"eval_id": "refund_late", "conversation": [turn]}
    path.write_text(json.dumps({"eval_set_id": "support", "eval_cases": [case]}))
    found = [each for each in links(client, CASE) if each.startswith("/edit")]
    (edit,) = [each for each in found if "&do=" not in each]
    for kind in ("forbid", "require"):
        assert [each.rpartition("=")[2] for each in found if f"={kind}-" in each] == [
            f"{kind}-call.0.{number}" for number in range(3)
        ]
    assert "file=evals%2Fother.evalset.json" in client.get(edit).headers["location"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["refund_late", "crash", "order_0", "order_1", "order_2", "order_3"]),
        ("?kind=failed", ["refund_late"]),
        ("?kind=crashed", ["crash"]),
        ("?kind=new", ["refund_late"]),
        ("?kind=flaky", ["refund_late"]),
        ("?tag=billing", ["refund_late"]),
        ("?set=orders", ["order_0", "order_1", "order_2", "order_3"]),
        ("?metric=tool_trajectory_avg_score", ["refund_late", "crash"]),
        ("?change=newly_passing", ["order_1"]),
        ("?change=unchanged&set=orders", ["order_0", "order_2", "order_3"]),
        ("?change=any", ["refund_late", "order_1"]),
        ("?change=changed", []),
        ("?q=CLOSE_ticket", ["refund_late"]),
        ("?q=late+parcel", ["refund_late"]),
        ("?q=no+such+order", ["crash"]),
        ("?q=sorry+order", ["refund_late"]),
        ("?q=nowhere", []),
        ("?sort=name&set=support", ["crash", "refund_late"]),
        ("?sort=cost&set=support", ["refund_late", "crash"]),
        ("?sort=duration&set=support", ["refund_late", "crash"]),
        ("?sort=score:tool_trajectory_avg_score&set=support", ["refund_late", "crash"]),
        ("?kind=nonsense&page=99&sort=nonsense&set=support", ["refund_late", "crash"]),
    ],
)
def test_the_list(client: TestClient, query: str, expected: list[str]) -> None:
    page = client.get(f"{RECORD}/cases{query}").text
    assert [
        each.rpartition("/")[2]
        for each in re.findall(r"case-link[^>]*><code>(.*?)</code>", page.replace("<wbr>", ""))
    ] == expected


def test_a_case_shows_both_sides(client: TestClient) -> None:
    page = client.get(CASE).text
    assert re.findall(r"<del>(.*?)</del>", page) == ["10", "late", "&quot;anna@example.com&quot;", "10"]
    assert re.findall(r"<ins>(.*?)</ins>", page) == ["12", "lost", "4", "12", ", sorry"]
    assert page.count("First divergence") == 1
    text = read(client, CASE)
    for words in (
        "note.reason",
        "fields[1]",
        "Not called",
        "Not expected",
        "Wrong amount",
        "The answer is polite",
        "newly failing",
    ):
        assert words in text
    assert "evalgate run" in text


def test_the_filter_is_kept_from_case_to_case(client: TestClient) -> None:
    found = links(client, f"{RECORD}/cases?set=support&sort=name")
    first = next(each for each in found if "id=crash" in each)
    assert first == f"{RECORD}/case?in=support&id=crash&set=support&sort=name"
    after = links(client, first)
    assert f"{RECORD}/case?in=support&id=refund_late&set=support&sort=name" in after
    assert f"{RECORD}/cases?set=support&sort=name" in after
    assert "1 of 2 cases" in read(client, first)


def test_runs_next_to_one_another(client: TestClient) -> None:
    text = read(client, f"{CASE}&view=runs")
    assert "Run 1 failed" in text
    assert "Run 2 passed" in text
    assert "Your refund of 10 EUR" in text


def test_the_trace(client: TestClient) -> None:
    text = read(client, f"{CASE}&view=trace&span=1&panel=request")
    assert "models 2.00 s in 3 calls" in text
    assert "Where is my order A-17?" in text
    error = client.get(f"{CASE}&view=trace&span=4&panel=event").text
    assert "limit exceeded" in error
    current = re.search(r'id="current".*?</li>', error, re.DOTALL)
    assert current is not None
    assert "issue_refund" in current[0].replace("<wbr>", "")
    graph = client.get(f"{CASE}&view=trace&panel=graph").text
    assert 'class="graph"' in graph
    assert "not called" in graph


def test_without_a_trace_the_events_are_shown_in_order(client: TestClient) -> None:
    text = read(client, f"{CASE}&view=trace&run=2")
    assert "evalgate run --trace" in text
    assert text.index("lookup_order") < text.index("issue_refund") < text.index("send_mail")


@pytest.mark.parametrize(
    "path", [f"{RECORD}/case", f"{RECORD}/case?in=support&id=no", f"{CASE}&run=9", "/records/nowhere"]
)
def test_what_is_not_there_is_a_page(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert "Cannot be shown" in answer.text


@pytest.mark.parametrize("view", ["", "&view=runs"])
def test_a_score_of_a_run_does_not_look_equal_to_the_threshold_that_it_misses(
    tmp_path: Path, view: str
) -> None:
    case = a_scored_case("near", 0.5, a_scored_run(1, EXPECTED, 0.79996), a_scored_run(2, EXPECTED, 0.8))
    write_record(tmp_path / "evalgate-report/results.json", a_record(case))
    client = open_client(create_viewer(tmp_path))
    text = read(client, f"{RECORD}/case?in=support&id=near{view}")
    assert "0.79996" in text


def test_a_list_of_cases_has_columns_of_scores_before_those_of_budgets(tmp_path: Path) -> None:
    names = [f"budget/{name}" for name in ("tokens", "turns", "cost_usd", "tool_calls")] + ["quality"]
    record = a_record(a_case_result(), metrics=tuple(a_summary(name) for name in names))
    write_record(tmp_path / "evalgate-report/results.json", record)
    page = open_client(create_viewer(tmp_path)).get(f"{RECORD}/cases").text
    head = page.partition("<thead>")[2].partition("</thead>")[0]
    columns = re.findall(r"<th[^>]*>(.*?)</th>", head.replace("<wbr>", ""))
    assert columns == ["Case", "quality", *names[:3], "Time", "USD"]


def test_an_error_shows_code_as_code(client: TestClient) -> None:
    assert "there is no record <code>nope</code>" in client.get("/records/nope").text


def test_the_limits_of_a_budget_are_said_once(tmp_path: Path) -> None:
    options = {"max": 900.0, "max_increase": 0.2}
    record = replace(
        a_record(
            a_case_result(),
            metrics=(replace(a_summary("budget/tokens", 836.0, 900.0), range=BUDGET_RANGE),),
        ),
        criteria=(RecordedCriterion("budget/tokens", "f", options),),
    )
    write_record(tmp_path / "evalgate-report/results.json", record)
    assert "836 budget/tokens threshold 900 " in read(open_client(create_viewer(tmp_path)), "/history")


def test_the_cost_of_a_case_is_that_of_agent_user_and_earlier_attempts(tmp_path: Path) -> None:
    attempt = Attempt("crashed", Failure("exited", "gone"), 9.0, Usage(1, 1, 0.25))
    answered = a_run_result(duration_s=1.0)
    cases = {
        "agent": replace(answered, usage=Usage(1, 1, 1.0)),
        "user": replace(answered, usage=Usage(1, 1, 0.5), user_usage=Usage(1, 1, 0.625)),
        "again": replace(answered, usage=Usage(1, 1, 1.0), earlier_attempts=(attempt,)),
        "partly": replace(answered, usage=Usage(1, 1, 0.5), user_usage=Usage(1, 1, None)),
        "unknown": replace(answered, user_usage=Usage(1, 1, None)),
        "free": answered,
    }
    record = a_record(*(a_case_result(name, runs=(run,)) for name, run in cases.items()))
    write_record(tmp_path / "evalgate-report/results.json", record)
    page = open_client(create_viewer(tmp_path)).get(f"{RECORD}/cases?sort=cost").text
    names = re.findall(r"travel/<wbr>(\w+)</code>", page)
    costs = re.findall(r'data-label="USD">(.*?)</td>', page)
    assert dict(zip(names, costs, strict=True)) == {
        "again": "1.2500",
        "user": "1.1250",
        "agent": "1.0000",
        "partly": "≥ 0.5000",
        "unknown": "unknown",
        "free": "",
    }
    assert names == [*["again", "user", "agent", "partly", "unknown", "free"]]


def test_control_runs_are_a_table(tmp_path: Path) -> None:
    many = [
        ControlCase("desk", f"order_{n}", (), "open", 4, 2, 0, 5, 1, 1, sentence="Too close.")
        for n in range(51)
    ]
    fell = ControlMetric("safety", "f", "open", head=0.5, sentence="Cannot tell.")
    near = ControlMetric("accuracy", "f", "open", head=0.899, control=0.901, sentence="Cannot tell.")
    control = ControlComparison("0123456789ab" + 28 * "0", "open", tuple(many), (fell, near), runs=408)
    write_record(tmp_path / "evalgate-report/results.json", replace(a_record_to_view(), control=control))
    page = read(open_client(create_viewer(tmp_path)), RECORD)
    assert "408 runs of today compared the change with the base commit 0123456789ab." in page
    assert "order_49open3 of 52 of 4Too close." in page
    assert "safetyopen–0.50Cannot tell." in page
    assert "accuracyopen0.9010.899Cannot tell." in page
    assert "order_50" not in page
    assert "… and 1 more case: see results.json." in page
