"""Which files a viewer shows, under which names, and what it reads of them."""

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evalgate.baselines.history import add_run, build_baseline
from evalgate.baselines.serialization import dump_baseline
from evalgate.core.errors import InvalidInputError
from evalgate.core.types import Baseline, BaselineSource
from evalgate.reporting.results_history import FOLDER
from evalgate.viewer import compared_record, record_heads, records
from evalgate.viewer.record_heads import find_case, read_head
from evalgate.viewer.recordings import read_any
from evalgate.viewer.records import RecordStore
from tests.integrations.adk.test_sessions import SESSION
from tests.viewer.samples import EXPECTED, a_record_to_view, a_scored_case, a_scored_run
from tests.viewer.serving import create_viewer, open_client, write_record
from tests.viewer.test_pages import read

RECORD = a_record_to_view()


def ids(folder: Path, *named: str) -> list[str]:
    return [each.record_id for each in RecordStore(folder, named).list_records()]


def test_a_folder_with_too_many_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_MOST_IN_FOLDER", 2)
    for name in "ab":
        write_record(tmp_path / "kept" / f"{name}.json", RECORD)
    assert ids(tmp_path, "kept") == ["a", "b"]
    write_record(tmp_path / "kept" / "c.json", RECORD)
    with pytest.raises(
        InvalidInputError, match=r"kept: the folder holds 3 .json files, and at most 2 can be shown"
    ):
        RecordStore(tmp_path, ["kept"])


def test_without_names_the_last_run_and_the_history_are_shown(tmp_path: Path) -> None:
    assert ids(tmp_path) == []
    write_record(tmp_path / FOLDER / "20261101T080000Z.json", replace(RECORD, duration_s=1.0))
    write_record(tmp_path / FOLDER / "20261102T080000Z.json", replace(RECORD, duration_s=2.0))
    write_record(tmp_path / FOLDER / "notes.json", RECORD)
    write_record(tmp_path / "evalgate-report/results.json", RECORD)
    assert ids(tmp_path) == ["last", "20261102T080000Z", "20261101T080000Z"]


def test_the_kept_copy_of_the_last_run_is_listed_once_and_can_be_opened(tmp_path: Path) -> None:
    write_record(tmp_path / "evalgate-report/results.json", RECORD)
    write_record(tmp_path / FOLDER / "20261102T080000Z.json", RECORD)
    write_record(tmp_path / FOLDER / "20261101T080000Z.json", replace(RECORD, duration_s=1.0))
    assert ids(tmp_path) == ["last", "20261101T080000Z"]
    assert RecordStore(tmp_path).open_record("20261102T080000Z").record == RECORD


def test_the_form_compares_with_the_next_older_result(tmp_path: Path) -> None:
    write_record(tmp_path / "evalgate-report/results.json", RECORD)
    write_record(tmp_path / FOLDER / "20261101T080000Z.json", replace(RECORD, duration_s=1.0))
    page = open_client(create_viewer(tmp_path)).get("/compare?b=last").text
    assert re.findall(r'value="([^"]*)" selected', page) == ["20261101T080000Z", "last"]


def test_results_are_compared_by_their_times_and_not_by_their_places(tmp_path: Path) -> None:
    for name, day in {"evalgate-report/results": 2, f"{FOLDER}/20261103T080000Z": 3, "named": 1}.items():
        created_at = f"2026-11-0{day}T08:00:00Z"
        write_record(tmp_path / f"{name}.json", replace(RECORD, created_at=created_at))
    client = open_client(create_viewer(tmp_path, "named.json"))
    expected = ["last", "20261103T080000Z"]
    assert re.findall(r'value="([^"]*)" selected', client.get("/compare").text) == expected
    found = re.findall(r'name="([ab])" value="([^"]*)" checked', client.get("/history").text)
    assert dict(found) == dict(zip("ab", expected, strict=True))


def test_a_metric_that_regressed_has_failed_in_the_list_of_results(tmp_path: Path) -> None:
    metrics = (replace(RECORD.metrics[0], regressed=True), RECORD.metrics[1])
    write_record(tmp_path / "evalgate-report/results.json", replace(RECORD, metrics=metrics))
    page = open_client(create_viewer(tmp_path)).get("/history").text
    assert re.findall(r'<li><span class="pill (\w+)">', page) == ["failed", "passed"]


def test_named_files_come_first_and_have_names_of_their_own(tmp_path: Path) -> None:
    for name in ("a/results.json", "b/results.json", "c/x.json", "c/y y.json", "last.json", "2026.json"):
        write_record(tmp_path / name, RECORD)
    found = ids(tmp_path, "a/results.json", "b", "c", "last.json", "2026.json")
    assert found == ["results", "results-2", "x", "y-y", "file-last", "file-2026"]


def test_links_out_of_the_history_are_not_followed(tmp_path: Path) -> None:
    secret = write_record(tmp_path / "elsewhere/secret.json", RECORD)
    (tmp_path / FOLDER).mkdir(parents=True)
    (tmp_path / FOLDER / "20261101T080000Z.json").symlink_to(secret)
    assert ids(tmp_path) == []


def test_a_record_is_parsed_once_until_its_file_changes(tmp_path: Path) -> None:
    path = write_record(tmp_path / "results.json", RECORD)
    store = RecordStore(tmp_path, ["results.json"])
    first = store.open_record("results")
    assert store.open_record("results") is first
    write_record(path, replace(RECORD, duration_s=9.0))
    os.utime(path, ns=(1, 1))
    assert store.open_record("results").record.duration_s == 9.0
    path.unlink()
    with pytest.raises(InvalidInputError, match="cannot be read"):
        store.open_record("results")


def test_one_case_of_a_large_file(tmp_path: Path) -> None:
    odd = tuple(a_scored_case(name, 1.0) for name in ('q"uote', "back\\slash", "##[x", "\u202e", "é"))
    record = replace(RECORD, cases=(*RECORD.cases, *odd))
    write_record(tmp_path / "ours.json", record)
    (tmp_path / "theirs.json").write_text(
        json.dumps(json.loads((tmp_path / "ours.json").read_text()), indent=2)
    )
    for stored in RecordStore(tmp_path, ["ours.json", "theirs.json"]).list_records():
        assert read_head(stored).verdict == record.verdict
        for case in record.cases:
            assert find_case(stored, case.key)[1] == case
        assert find_case(stored, ("support", "nowhere"))[1] is None


def test_a_saved_session_and_a_trace(tmp_path: Path) -> None:
    (tmp_path / "saved.session.json").write_text(json.dumps(SESSION))
    span = {
        "traceId": "1" * 32, "spanId": "2" * 16, "name": "chat", "startTimeUnixNano": "1000000000", "endTimeUnixNano": "3000000000",
        "attributes": [
            {"key": key, "value": {"stringValue": value}}
            for key, value in (("gen_ai.operation.name", "chat"), ("gen_ai.request.model", "gpt-5-mini"), ("gen_ai.conversation.id", "late parcel"))
        ],
    }  # fmt: skip
    (tmp_path / "trace.json").write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}))
    client = open_client(create_viewer(tmp_path, "saved.session.json", "trace.json"))

    session = client.get("/records/saved.session").headers["location"]
    assert "And tomorrow?" in read(client, session)
    assert "This recording has no spans" in read(client, session)
    trace = client.get("/records/trace").headers["location"]
    assert trace == "/records/trace/case?in=trace&id=late+parcel&view=trace"
    assert "models 2.00 s in 1 call" in read(client, trace)
    assert "a recording, not evaluated" in read(client, "/history")


def test_the_times_of_a_sessions_events_make_a_waterfall(tmp_path: Path) -> None:
    recorded: Any = SESSION["events"]
    events = [{**event, "timestamp": 100 + 0.5 * at} for at, event in enumerate(recorded)]
    (tmp_path / "saved.session.json").write_text(json.dumps({**SESSION, "events": events}))
    client = open_client(create_viewer(tmp_path, "saved.session.json"))
    page = client.get("/records/saved.session").headers["location"]
    text = read(client, page)
    assert "This recording has no spans" not in text
    assert "those of the session's events" in text
    run = client.app.state.viewer.records.open_record("saved.session").record.cases[0].runs[0]  # type: ignore[attr-defined]
    assert [span.kind for span in run.trace].count("agent") == 2
    (tool, *_) = [span for span in run.trace if span.kind == "tool"]
    assert (tool.name, tool.duration_s) == ("forecast", 0.5)
    assert run.trace[0].duration_s == max(
        span.start_s + span.duration_s for span in run.trace if span.turn == 0
    )
    assert {span.parent_id for span in run.trace if span.kind != "agent"} == {"0", "1"}


def test_a_broken_file_is_named_and_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken.json").write_text("{")
    write_record(tmp_path / "good.json", RECORD)
    client = open_client(create_viewer(tmp_path, "broken.json", "good.json"))
    assert "broken.json" in client.get("/records/broken").text
    text = read(client, "/history")
    assert "broken.json" in text
    assert "Gate closed" in text
    assert client.get("/records/good").status_code == 200
    with monkeypatch.context() as patched:  # neither file is read again
        patched.setattr(record_heads, "_read_parts", None)
        patched.setattr(records, "read_any", None)
        assert read(client, "/history") == text
    write_record(tmp_path / "broken.json", RECORD)
    assert read(client, "/history").count("Gate closed") == 2


def test_the_history_of_a_case_is_in_the_order_of_time(tmp_path: Path) -> None:
    runs = (a_scored_run(1, EXPECTED, 1.0), a_scored_run(2, EXPECTED, 0.0))
    twice = replace(RECORD, cases=(a_scored_case("refund_late", 0.5, *runs),))
    write_record(tmp_path / "evalgate-report/results.json", replace(twice, created_at="2026-11-20T08:30:00Z"))
    for day in (19, 21):
        name = f"{FOLDER}/202611{day}T083000Z.json"
        write_record(tmp_path / name, replace(RECORD, created_at=f"2026-11-{day}T08:30:00Z"))
    text = read(open_client(create_viewer(tmp_path)), "/case-history?in=support&id=refund_late")
    assert re.findall(r"2026-11-\d+", text) == ["2026-11-21", "2026-11-20", "2026-11-19"]
    assert "failed 1 of 2 runs passed" in text


def test_the_baseline_is_compared_and_part_of_the_history(tmp_path: Path) -> None:
    before = replace(RECORD, cases=(a_scored_case("refund_late", 1.0, a_scored_run(1, EXPECTED, 1.0)),))
    baseline = build_baseline(before, BaselineSource("2026-11-01T08:00:00Z", "1a2b3c4d", "main"))
    (tmp_path / ".evalgate").mkdir()
    (tmp_path / ".evalgate/baseline.json").write_text(dump_baseline(baseline))
    write_record(tmp_path / "evalgate-report/results.json", RECORD)
    client = open_client(create_viewer(tmp_path))

    assert "the stored baseline" in read(client, "/compare")
    named = open_client(create_viewer(tmp_path, ".evalgate/baseline.json"))
    page = named.get("/records/file-baseline").headers["location"]
    assert "Your refund of 10 EUR is on its way." in read(named, page)
    assert "newly failing" in read(client, "/compare?a=baseline&b=last")
    text = read(client, "/compare/case?a=baseline&b=last&in=support&id=refund_late")
    assert "Your refund of 10 EUR is on its way." in text
    assert "Your refund of 12 EUR is on its way, sorry." in text
    assert "1a2b3c4d" in read(client, "/case-history?in=support&id=refund_late")
    assert "main" in read(client, "/history")


def test_the_stored_replies_stand_at_the_run_that_gave_them(tmp_path: Path) -> None:
    """Of each gate run those of the first answered run are stored, and of a baseline those of the newest."""
    runs = (
        replace(a_scored_run(1, EXPECTED, 1.0), outcome="crashed"),
        a_scored_run(2, EXPECTED, 1.0),
        a_scored_run(3, None, 0.0),
    )
    record = replace(RECORD, cases=(a_scored_case("refund_late", 1.0, *runs),))
    baseline = build_baseline(record, BaselineSource("2026-11-02T08:00:00Z", digest="new"))
    late = BaselineSource("2026-11-01T08:00:00Z", digest="late")  # a slower job of an older commit
    path = tmp_path / "baseline.json"
    path.write_text(dump_baseline(add_run(baseline, record, late)))
    (case,) = read_any(path, "baseline.json")[0].cases
    assert [len(run.turns) for run in case.runs] == [0, 0, 0, 0, 1, 0]


def test_a_baseline_elsewhere_is_fetched_when_it_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[str] = []
    stored = build_baseline(RECORD, BaselineSource("2026-11-01T08:00:00Z", "1a2b3c4d", "main"))

    def fetch() -> Baseline:
        fetched.append("branch:baselines")
        return stored

    target = SimpleNamespace(target="branch:baselines", store=SimpleNamespace(read=fetch))
    monkeypatch.setattr(compared_record, "resolve_target", lambda *_: target)
    write_record(tmp_path / "evalgate-report/results.json", RECORD)
    client = open_client(create_viewer(tmp_path))

    assert "the stored baseline in branch:baselines" in read(client, "/compare")
    assert fetched == []
    for _ in range(2):
        assert "Cases, changed ones first" in read(client, "/compare?a=baseline&b=last")
    assert fetched == ["branch:baselines"]
