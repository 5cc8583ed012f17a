"""The one comment of a gate, posted to a running GitHub and a running GitLab."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from evalgate.ci.comment_sections import format_marker
from evalgate.ci.posting import PostResult
from evalgate.core.installation import describe_install
from tests.ci.hosts import HOSTS, QUICK, Host
from tests.github.faults import Fault

OLD = f"{format_marker('main')}\n\nold"


@pytest.fixture(params=HOSTS, ids=lambda host: host.name)
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    """A running service; the test fails if a client breaks its contract."""
    with request.param.running() as running:
        yield running


def test_a_comment_is_posted_then_updated_then_left_unchanged(host: Host) -> None:
    assert host.post("one").kind == "posted"
    updated = host.post("two", run=2)
    assert (updated.kind, updated.reason) == ("updated", "")
    assert updated.url.endswith("1001")
    assert host.post("two", run=2).kind == "unchanged"
    assert host.texts() == [{"": "two"}]
    assert [method for method in host.methods if method != "GET"] == ["POST", host.edit]


def test_a_run_may_correct_its_own_report(host: Host) -> None:
    host.post("one")
    assert host.post("two").kind == "updated"
    assert host.texts() == [{"": "two"}]


def test_a_newer_run_is_never_overwritten(host: Host) -> None:
    host.post("new", run=9)
    assert host.post("old", run=8).reason == "a newer run has already reported"
    assert host.texts() == [{"": "new"}]


def test_each_gate_has_a_comment(host: Host) -> None:
    for gate in ("main", "nightly", "main/é -->"):
        assert host.post(gate, gate=gate).kind == "posted"
    assert host.post("again", gate="nightly", run=2).kind == "updated"
    assert host.texts() == [{"": "main"}, {"": "again"}, {"": "main/é -->"}]


def test_each_job_has_a_section_of_the_comment(host: Host) -> None:
    for key in ("linux", "mac", "linux"):
        host.post(f"on {key}", key=key, shared=True)
    assert host.texts() == [{"linux": "on linux", "mac": "on mac"}]


@pytest.mark.parametrize("kind", HOSTS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("prefix", ["", "/below"])
def test_the_comment_is_found_on_any_page(kind: type[Host], prefix: str) -> None:
    with kind.running(prefix=prefix, page_size=10) as host:
        for number in range(35):
            host.add(f"chat {number}", "mallory")
        host.add(OLD)
        assert host.post().kind == "updated"
        assert len(host.bodies()) == 36


@pytest.mark.parametrize(
    "body", [OLD, f"I quote:\n{OLD}", f"> {OLD}"], ids=["marker first", "marker later", "quoted"]
)
def test_a_comment_of_another_account_is_never_edited(host: Host, body: str) -> None:
    count_edits = host.add(body, "mallory")
    assert host.post().kind == "posted"
    assert host.post("more", run=2).kind == "updated"
    assert count_edits() == 0
    assert len(host.bodies()) == 2


def test_duplicates_are_merged_into_the_oldest_and_removed(host: Host) -> None:
    host.post("on linux", key="linux")
    kept = host.bodies()[0]
    host.add(kept.replace("linux", "mac"))
    host.add(kept.replace("on linux", "on linux, later").replace("run=1", "run=2"))
    count_edits = host.add(kept, "mallory")
    host.post("on windows", key="windows", run=2)
    expected = {"linux": "on linux, later", "mac": "on mac", "windows": "on windows"}
    assert host.texts() == [expected, {"linux": "on linux"}]
    assert count_edits() == 0


def test_a_deleted_comment_is_posted_again(host: Host) -> None:
    host.post("one")
    host.delete_all()
    assert host.post("two", run=2).kind == "posted"
    assert host.texts() == [{"": "two"}]


def test_a_comment_that_is_deleted_before_its_edit_is_posted_again(host: Host) -> None:
    host.post("one")
    host.faults.append(Fault(host.edit, then=host.delete_all))
    assert host.post("two", run=2).kind == "posted"
    assert host.texts() == [{"": "two"}]


def test_a_long_comment_is_shortened_to_what_the_service_accepts(host: Host) -> None:
    assert host.post("a line\n" * (host.longest // 5)).kind == "posted"
    (body,) = host.bodies()
    assert 0.9 * host.longest < len(body) <= host.longest
    assert "shortened" in body


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=500),
        Fault(status=502, times=3),
        Fault(status=503, method="GET"),
        Fault(status=429, headers={"Retry-After": "0"}, message="too many"),
        Fault("POST", status=429, headers={"Retry-After": "1"}),
        Fault(cut="before"),
        Fault(cut="after"),
        Fault(cut="halfway"),
        Fault("POST", cut="after"),
        Fault("POST", cut="halfway"),
        Fault(body=b"<html>bad gateway</html>"),
        Fault(body=b'[{"id": 1}]'),
        Fault("POST", body=b"\xff\xfe"),
        Fault("POST", body=b"{}"),
        Fault("GET", delay_s=1.3),
    ],
    ids=repr,
)
def test_a_transient_fault_leaves_one_comment(host: Host, fault: Fault) -> None:
    host.faults.append(replace(fault))
    timeouts = replace(QUICK, request_s=1) if fault.delay_s else QUICK
    assert host.post(timeouts=timeouts).kind in {"posted", "updated", "unchanged"}
    assert host.texts() == [{"": "All good."}]


def test_an_empty_token_is_skipped(host: Host) -> None:
    assert host.post(token=" ") == PostResult("skipped", "there is no token")


def test_the_token_is_in_no_log_and_no_text(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    token = "ghs_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    with caplog.at_level(logging.DEBUG):
        result = host.post(token=token)
    assert result.kind == "failed"
    assert token not in f"{result} {caplog.text} {host.describe_account(token)}"


def test_only_a_post_loads_a_client() -> None:
    code = (
        "import sys, evalgate.ci.github_pull_request, evalgate.ci.gitlab\n"
        "assert {'github', 'gitlab', 'requests'}.isdisjoint(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_missing_client_is_named(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, host.client, None)
    assert host.post() == PostResult("failed", f"this needs {host.extra}: {describe_install(host.client)}")
