"""Results at other servers: what arrives there, and what goes wrong without changing the verdict."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from evalgate.__main__ import main
from evalgate.core.errors import InvalidInputError
from evalgate.core.score_ranges import BUDGET_RANGE
from evalgate.core.types import CaseChange, Comparison, PlanId, Quarantine, RunMetric, Shard, Verdict
from evalgate.reporting.evaluation_events import iter_requests
from evalgate.reporting.webhook_payload import WebhookFormat, build_payload
from evalgate.runner.notifications import resolve_destinations, send_record
from tests.builders import a_case_result, a_record, a_run_result, a_summary
from tests.ports import free_port
from tests.receiver import Posted, receiving

SECRET = "sk-live-4f9a8c7b6d5e"
AGENT = "import os\ndef answer(text):\n    if text == 'crash':\n        raise KeyError('city')\n    return 'Hello ' + os.environ['APP_API_KEY']\n"


def build_project(folder: Path) -> Path:
    """A project whose agent answers with a secret, and crashes in its second case."""
    folder.mkdir(exist_ok=True)
    (folder / "agent.py").write_text(AGENT)
    cases = [
        {
            "eval_id": name,
            "conversation": [
                {
                    "user_content": {"parts": [{"text": name}]},
                    "final_response": {"parts": [{"text": "Hello"}]},
                }
            ],
        }
        for name in ("greet", "crash")
    ]
    (folder / "a.evalset.json").write_text(json.dumps({"eval_set_id": "a", "eval_cases": cases}))
    rules = {"version": 1, "criteria": {"response_match_score": 0.5}, "agent": {"entry": "agent.py:answer"}}
    (folder / "evalgate.json").write_text(json.dumps({**rules, "eval_sets": ["a.evalset.json"]}))
    return folder


def parse_logs(posted: Posted) -> ExportLogsServiceRequest:
    """Parse a request with OpenTelemetry's own definition, which refuses unknown fields."""
    request: ExportLogsServiceRequest = json_format.Parse(posted.body, ExportLogsServiceRequest())
    return request


def read_attributes(pairs: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in pairs}


def list_events(request: ExportLogsServiceRequest) -> list[LogRecord]:
    return [
        record
        for resource in request.resource_logs
        for scope in resource.scope_logs
        for record in scope.log_records
    ]


def test_a_collector_gets_each_score_and_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = build_project(tmp_path)
    monkeypatch.setenv("APP_API_KEY", SECRET)
    monkeypatch.setenv(
        "OTEL_EXPORTER_OTLP_HEADERS", "x-scope=team%20a,authorization=Bearer%20t0ken-of-the-collector"
    )
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=ci")
    monkeypatch.setenv("GITHUB_SHA", "1a2b3c4d")
    with receiving() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        code = main(["run", "-C", str(folder), "--env", "APP_API_KEY", "--otlp", "env"])

    (posted,) = receiver.posts
    request = parse_logs(posted)
    assert (code, posted.path) == (1, "/v1/logs")
    assert (posted.headers["x-scope"], posted.headers["authorization"][:7]) == ("team a", "Bearer ")
    resource = read_attributes(request.resource_logs[0].resource.attributes)
    assert (resource["service.name"], resource["vcs.ref.head.revision"]) == ("evalgate", "1a2b3c4d")
    assert resource["deployment.environment.name"] == "ci"
    greet, crash, verdict = list_events(request)
    assert [each.event_name for each in (greet, crash, verdict)] == [
        *["gen_ai.evaluation.result"] * 2,
        "evalgate.verdict",
    ]
    found = read_attributes(greet.attributes)
    assert found["gen_ai.evaluation.name"] == "response_match_score"
    assert 0 < found["gen_ai.evaluation.score.value"] < 1
    assert found["gen_ai.evaluation.score.label"] in {"pass", "fail"}
    assert (found["evalgate.eval_set.id"], found["evalgate.case.id"], found["evalgate.run"]) == (
        "a",
        "greet",
        1,
    )
    assert found["evalgate.threshold"] == 0.5
    broken = read_attributes(crash.attributes)
    assert broken["error.type"] == "exception"
    assert not broken.keys() & {"gen_ai.evaluation.score.value", "gen_ai.evaluation.score.label"}
    assert read_attributes(verdict.attributes)["evalgate.verdict"] == "fail"
    assert greet.time_unix_nano > 1_600_000_000 * 10**9
    printed = capsys.readouterr()
    assert SECRET.encode() not in posted.body
    assert "t0ken-of-the-collector" not in printed.out + printed.err


@pytest.mark.parametrize(
    ("answers", "posts", "sentence"),
    [
        ([(503, {"Retry-After": "0"}, b""), (200, {}, b"{}")], 2, ""),
        ([(503, {"Retry-After": "0"}, b"")], 3, "answered 503 Service Unavailable. The verdict stands."),
        ([(401, {}, b"no such key")], 1, "answered 401 Unauthorized: no such key. The verdict stands."),
        ([(307, {"Location": "http://127.0.0.1:9/"}, b"")], 1, "answered 307 Temporary Redirect."),
        ([(302, {"Location": "http://127.0.0.1:9/"}, b"")], 1, "answered 302 Found."),
        (
            [(200, {}, b'{"partialSuccess": {"rejectedLogRecords": "2", "errorMessage": "too old"}}')],
            1,
            "did not take all OpenTelemetry events: 2 rejected (too old).",
        ),
        ([(200, {}, b"<html>")], 1, ""),
    ],
)
def test_a_server_that_refuses_is_a_notice(
    tmp_path: Path, answers: list[Any], posts: int, sentence: str
) -> None:
    with receiving(*answers) as receiver:
        targets = resolve_destinations(f"{receiver.url}/secret-path", {})
        said = list(send_record(a_record(a_case_result("a")), targets, tmp_path, {}))
    assert len(receiver.posts) == posts
    assert sentence in " ".join(said)
    assert bool(said) == bool(sentence)
    assert "secret-path" not in " ".join(said)


def test_a_server_that_is_not_there_is_a_notice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evalgate.system.http_post.time.sleep", lambda _: None)
    folder = build_project(tmp_path)
    (folder / "agent.py").write_text("def answer(text):\n    return 'Hello'\n")
    port = free_port()
    assert main(["run", "-C", str(folder), "--otlp", f"http://user:pa55@127.0.0.1:{port}"]) == 0
    targets = resolve_destinations(f"http://user:pa55@127.0.0.1:{port}/v1/logs", {})
    (said,) = send_record(a_record(a_case_result("a")), targets, tmp_path, {})
    assert said.startswith(
        f"Not all results were sent to OpenTelemetry: 127.0.0.1:{port} could not be reached"
    )


def test_a_shard_sends_nothing(tmp_path: Path) -> None:
    shard = Shard(1, 2, (0,), 2, PlanId("", "", ""))
    with receiving() as receiver:
        targets = resolve_destinations(receiver.url, {})
        assert (
            list(send_record(replace(a_record(a_case_result("a")), shard=shard), targets, tmp_path, {})) == []
        )
    assert receiver.posts == []


def test_many_scores_are_several_requests() -> None:
    score = RunMetric("response_match_score", 1.0, "passed")
    runs = tuple(replace(a_run_result(), run=number, metrics=(score,)) for number in range(1, 601))
    bodies = list(iter_requests(a_record(a_case_result("a", runs=runs)), {}))
    scores = sum(len(run.metrics) for run in runs)
    counts = [len(list_events(parse_logs(Posted("", {}, json.dumps(body).encode())))) for body in bodies]
    assert counts == [512, scores + 1 - 512]


@pytest.mark.parametrize(
    ("url", "environ", "address"),
    [
        ("http://a:1/", {}, "http://a:1/v1/logs"),
        ("http://a:1/otlp/v1/logs", {}, "http://a:1/otlp/v1/logs"),
        ("http://a:1/otlp/v1/logs/", {}, "http://a:1/otlp/v1/logs"),
        ("http://a:1?k=v", {}, "http://a:1/v1/logs?k=v"),
        ("http://u:p@a:1/otlp/?k=v/w", {}, "http://u:p@a:1/otlp/v1/logs?k=v/w"),
        ("env", {"OTEL_EXPORTER_OTLP_ENDPOINT": "https://a/otlp"}, "https://a/otlp/v1/logs"),
        ("env", {"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "https://a/in"}, "https://a/in"),
    ],
)
def test_the_address_is_that_of_opentelemetry(url: str, environ: dict[str, str], address: str) -> None:
    target = resolve_destinations(url, environ).otlp
    assert target is not None
    assert target.url == address


@pytest.mark.parametrize(
    ("url", "environ", "problem"),
    [
        ("env", {}, "`--otlp env` needs the variable OTEL_EXPORTER_OTLP_ENDPOINT"),
        ("localhost:4318", {}, "must be an address that begins with http:// or https://"),
        ("file:///etc/passwd", {}, "must be an address"),
        ("http://a:b/", {}, "must be an address"),
        ("http://a", {"OTEL_EXPORTER_OTLP_HEADERS": "k3y"}, "must be pairs `key=value`"),
        ("http://a", {"OTEL_RESOURCE_ATTRIBUTES": "k3y"}, "must be pairs `key=value`"),
        ("http://a", {"OTEL_EXPORTER_OTLP_TIMEOUT": "10s"}, "must be a number of milliseconds"),
        ("http://a", {"OTEL_EXPORTER_OTLP_CERTIFICATE": "/no/such.pem"}, "names no file"),
    ],
)
def test_a_wrong_address_stops_the_run_before_it_begins(
    url: str, environ: dict[str, str], problem: str
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        resolve_destinations(url, environ)
    assert problem in str(caught.value)
    assert "k3y" not in str(caught.value)


@pytest.mark.parametrize("form", ["json", "slack", "teams"])
def test_a_webhook_is_told_of_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    folder = build_project(tmp_path)
    monkeypatch.setenv("APP_API_KEY", SECRET)
    for name, value in (("SERVER_URL", "https://github.com"), ("REPOSITORY", "acme/desk"), ("RUN_ID", "71")):
        monkeypatch.setenv(f"GITHUB_{name}", value)
    with receiving((200, {}, b"ok")) as receiver:
        monkeypatch.setenv("EVALGATE_WEBHOOK", f"{receiver.url}/services/T0/B0/xYzzy")
        assert main(["run", "-C", str(folder), "--env", "APP_API_KEY", "--webhook-format", form]) == 1
    (posted,) = receiver.posts
    assert posted.path == "/services/T0/B0/xYzzy"
    body, job = json.loads(posted.body), "https://github.com/acme/desk/actions/runs/71"
    reason = "response_match_score is 0.40, below its threshold 0.50."
    if form == "json":
        assert (body["event"], body["version"], body["verdict"], body["exit_code"]) == (
            "evalgate.run",
            1,
            "fail",
            1,
        )
        assert (body["reasons"][0], body["url"]) == (reason, job)
        assert body["cases"] == {"total": 2, "passed": 0, "failed": 1, "errored": 1, "not_evaluated": 0}
        assert [metric["name"] for metric in body["metrics"]] == ["response_match_score"]
        documented = (Path(__file__).parents[2] / "docs/notify.md").read_text("utf-8")
        example = json.loads(documented.partition("```json\n")[2].partition("```")[0])
        assert body.keys() == example.keys()
        assert body["metrics"][0].keys() == example["metrics"][0].keys()
    elif form == "slack":
        texts = [block["text"]["text"] for block in body["blocks"]]
        assert texts[0] == f"*{body['text']}*  <{job}|Open the run>"
        assert "is 0.40, below its threshold 0.50." in texts[1]
    else:
        card = body["attachments"][0]["content"]
        assert card["actions"][0]["url"] == job
        assert reason in [part["text"] for block in card["body"] for part in block["inlines"]]
    printed = capsys.readouterr()
    assert SECRET.encode() not in posted.body
    assert "xYzzy" not in printed.out + printed.err + (folder / "evalgate-report/results.json").read_text(
        "utf-8"
    )


@pytest.mark.parametrize("form", ["slack", "teams"])
def test_a_message_formats_figures_and_scores_as_the_reports_do(form: WebhookFormat) -> None:
    metrics = (
        a_summary("quality", 0.79996, 0.8, "failed", baseline=0.8, delta=-0.00004, compared=1),
        replace(a_summary("budget/tokens", 5432.0, 6000.0, baseline=4999.5, delta=432.5), range=BUDGET_RANGE),
        replace(a_summary("budget/cost_usd", 0.00421, 0.01), range=BUDGET_RANGE),
    )
    text = json.dumps(
        build_payload(a_record(metrics=metrics), form, commit="", branch="", url=""), ensure_ascii=False
    )
    assert "quality: 0.79996 (baseline 0.80, Δ −0.00004)" in text
    assert "budget/tokens: 5,432 (baseline 5,000, Δ +432)" in text
    assert "budget/cost_usd: 0.00421" in text


@pytest.mark.parametrize("filler", range(5))
def test_a_long_message_is_not_cut_inside_an_escape(filler: int) -> None:
    reasons = ("x" * filler, *["<" * 200] * 19)
    record = replace(a_record(), verdict=Verdict("fail", 1, reasons))
    message: Any = build_payload(record, "slack", commit="", branch="", url="")
    text = message["blocks"][1]["text"]["text"]
    assert text.endswith("&lt;…")
    assert len(text) <= 2_800


def test_a_mean_over_other_cases_than_the_baseline_comes_with_its_change() -> None:
    crashed = a_summary("m", 1.0, n=4, errors=1, baseline=0.5, delta=-0.25, compared=4)
    message: Any = build_payload(a_record(metrics=(crashed,)), "slack", commit="", branch="", url="")
    assert "m: 1.00 (baseline 0.50, Δ −0.25)" in message["blocks"][1]["text"]["text"]


def test_a_quarantined_case_is_not_reported_as_newly_failing() -> None:
    cases = (a_case_result("a", "failed"), a_case_result("b", "failed"))
    quarantined = replace(cases[0], quarantine=Quarantine("anna", "slow", "2027-01-01"))
    changes = tuple(CaseChange("travel", name, "newly_failing") for name in "ab")
    record = a_record(quarantined, cases[1], comparison=Comparison("b.json", changes=changes))
    found = build_payload(record, "json", commit="", branch="", url="")
    assert found["newly_failing"] == ["travel/b"]


def test_a_message_mentions_no_channel(tmp_path: Path) -> None:
    record = replace(a_record(a_case_result("a")), verdict=Verdict("fail", 1, ("<!channel> & <http://x|y>",)))
    with receiving((403, {}, b"invalid_token")) as receiver:
        targets = resolve_destinations(None, {}, webhook=f"{receiver.url}/xYzzy", webhook_format="slack")
        (said,) = send_record(record, targets, tmp_path, {})
    assert (
        "&lt;!channel&gt; &amp; &lt;http://x|y&gt;"
        in json.loads(receiver.posts[0].body)["blocks"][1]["text"]["text"]
    )
    assert said.endswith("answered 403 Forbidden: invalid_token. The verdict stands.")
    assert "xYzzy" not in said
    with pytest.raises(InvalidInputError, match="`--webhook` must be an address"):
        resolve_destinations(None, {}, webhook="hooks.slack.com/x")
