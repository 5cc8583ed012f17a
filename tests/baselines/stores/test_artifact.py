"""A baseline in an artifact: only artifacts of the default branch's own runs are accepted."""

import io
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from evalgate.baselines.history import build_baseline
from evalgate.baselines.serialization import dump_baseline
from evalgate.baselines.stores import artifact
from evalgate.baselines.stores.artifact import ArtifactStore
from evalgate.ci.posting import PostTimeouts
from evalgate.cli.baseline_save import BaselineSaveOptions, save_baseline
from evalgate.core.errors import EvalgateError, InvalidInputError, NoVerdictError
from evalgate.core.plugin_registry import resolve_baseline_store
from evalgate.core.protocols import StoreContext, explain_missing_baseline
from evalgate.core.types import Baseline, BaselineSource
from evalgate.datasets.results_io import dump_record
from evalgate.runner.baseline_targets import resolve_target
from tests.builders import a_case_result, a_record
from tests.github.faults import Fault, limit_used_up, slow_down
from tests.github.server import FakeGitHub
from tests.github.world import REPOSITORY, Artifact, Run

NAME = "evalgate-baseline"
QUICK = PostTimeouts(total_s=50.0, request_s=20, pause_s=0.02, longest_pause_s=0.1)
RECORD = a_record(a_case_result("paris"))


def environ_of(github: FakeGitHub) -> dict[str, str]:
    return {
        "GITHUB_REPOSITORY": REPOSITORY,
        "GITHUB_API_URL": github.url,
        "GITHUB_TOKEN": "ghs_writer",
        "GITHUB_WORKFLOW_REF": f"{REPOSITORY}/.github/workflows/evalgate.yml@refs/pull/7/merge",
    }


def store(
    github: FakeGitHub, folder: Path = Path(), what: str = NAME, environ: Mapping[str, str] | None = None
) -> ArtifactStore:
    known = {**environ_of(github), **(environ or {})}
    made = resolve_baseline_store(f"artifact:{what}", StoreContext(folder, known))
    assert isinstance(made, ArtifactStore)
    return replace(made, patience=QUICK)


def zipped(*files: tuple[str, str | bytes]) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files:
            archive.writestr(name, content)
    return written.getvalue()


def holding(commit: str) -> bytes:
    source = BaselineSource("2026-11-20T08:00:00+00:00", commit, "main", digest=commit)
    return zipped(("baseline.json", dump_baseline(build_baseline(RECORD, source))))


def keep(github: FakeGitHub, run: Run, content: bytes, *, name: str = NAME, expired: bool = False) -> None:
    """A run that kept something."""
    world = github.world
    world.runs.append(run)
    world.artifacts.append(Artifact(world.next_id(), name, content, run.number, expired))


def commits_in(found: Baseline | None) -> list[str | None]:
    return [source.commit for source in found.sources] if found else []


def test_the_newest_good_run_counts(github: FakeGitHub) -> None:
    for number, commit in ((1, "old"), (3, "new"), (2, "older")):
        keep(github, Run(number), holding(commit))
    found = store(github).read()
    assert commits_in(found) == ["new"]
    assert found is not None
    assert (found.path, found.version) == (f"artifact:{NAME}:baseline.json", "run 3")


@pytest.mark.parametrize(
    "planted",
    [
        Run(9, event="pull_request"),
        Run(9, event="pull_request", repository=666),  # a fork's branch can be called main, too
        Run(9, event="pull_request_target"),
        Run(9, event="workflow_run"),
        Run(9, event="issue_comment"),
        Run(9, repository=666),
        Run(9, branch="next"),
        Run(9, conclusion="failure"),
        Run(9, conclusion="cancelled"),
        Run(9, conclusion=None),
        Run(9, workflow="other.yml"),
    ],
    ids=lambda run: f"{run.event}-{run.branch}-{run.conclusion}-{run.workflow}-{run.repository}",
)
def test_what_another_run_kept_is_never_looked_at(github: FakeGitHub, planted: Run) -> None:
    keep(github, Run(1), holding("true"))
    keep(github, planted, holding("planted"))
    assert commits_in(store(github).read()) == ["true"]


@pytest.mark.parametrize("event", artifact.EVENTS)
def test_runs_of_the_default_branch_count_whatever_started_them(github: FakeGitHub, event: str) -> None:
    keep(github, Run(1), holding("old"))
    keep(github, Run(2, event=event), holding("new"))
    assert commits_in(store(github).read()) == ["new"]


def test_it_is_found_on_any_page(github: FakeGitHub) -> None:
    github.page_size = 2
    keep(github, Run(1), holding("mine"))
    for number in range(2, 7):
        github.world.runs.append(Run(number))
    for number in range(5):
        github.world.artifacts.append(Artifact(100 + number, f"log-{number}", run=1))
    assert commits_in(store(github).read()) == ["mine"]


def test_a_run_that_was_repeated_kept_it_last(github: FakeGitHub) -> None:
    keep(github, Run(1), holding("first"))
    github.world.artifacts.append(Artifact(5000, NAME, holding("again"), 1))
    assert commits_in(store(github).read()) == ["again"]


def test_what_has_expired_is_passed_over(github: FakeGitHub) -> None:
    keep(github, Run(1), holding("old"))
    keep(github, Run(2), holding("new"), expired=True)
    assert commits_in(store(github).read()) == ["old"]


def test_that_there_is_none_is_explained(github: FakeGitHub) -> None:
    empty = store(github)
    github.world.runs.append(Run(1))
    assert empty.read() is None
    assert explain_missing_baseline(empty) == ": no good run of evalgate.yml on main kept it"
    keep(github, Run(2), holding("gone"), expired=True)
    assert empty.read() is None
    assert explain_missing_baseline(empty) == ": the artifacts that good runs on main kept have expired"


def test_another_workflow_and_file_can_be_named(github: FakeGitHub) -> None:
    content = zipped(("desk/results.json", dump_record(RECORD)))
    keep(github, Run(1, event="schedule", workflow="nightly.yaml"), content, name="report")
    found = store(
        github, what="nightly.yaml/report:desk/results.json", environ={"GITHUB_WORKFLOW_REF": ""}
    ).read()
    assert found is not None
    assert found.path == "artifact:nightly.yaml/report:desk/results.json"
    assert "paris" in [case.eval_id for case in found.cases if case.replies]


def test_enterprise_servers_are_asked_where_they_are() -> None:
    with FakeGitHub(prefix="/api/v3").running() as github:
        keep(github, Run(1), holding("there"))
        assert commits_in(store(github).read()) == ["there"]


@pytest.mark.parametrize("name", ["GH_TOKEN", "INPUT_TOKEN"])
def test_the_token_has_several_names(github: FakeGitHub, name: str) -> None:
    keep(github, Run(1), holding("mine"))
    assert commits_in(store(github, environ={"GITHUB_TOKEN": "", name: "ghs_writer"}).read()) == ["mine"]


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=502),
        Fault(path="_blobs", status=503),
        Fault(path="_blobs", cut="halfway"),
        Fault(path="_blobs", body=b"not what was kept"),
        Fault(path="/zip", cut="before"),
        slow_down("0"),
        slow_down("0", status=429),
    ],
)
def test_what_passes_is_waited_for(github: FakeGitHub, fault: Fault) -> None:
    keep(github, Run(1), holding("mine"))
    github.faults.append(fault)
    assert commits_in(store(github).read()) == ["mine"]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault(status=500, times=999), "GitHub answered 500: Server Error (given up a"),
        (
            limit_used_up(999),
            "(given up at once: the next attempt may be made in more than an hour). Run the job again.",
        ),
        (Fault(path="_blobs", status=404, times=999), "the storage of artifacts answered 404 (given up a"),
        (Fault(path="_blobs", body=b"junk", times=999), "the artifact did not arrive as it was kept"),
    ],
)
def test_who_does_not_answer_leaves_no_verdict(github: FakeGitHub, fault: Fault, said: str) -> None:
    keep(github, Run(1), holding("mine"))
    github.faults.append(fault)
    impatient = replace(store(github), patience=replace(QUICK, total_s=2.0))
    with pytest.raises(NoVerdictError) as caught:
        impatient.read()
    assert said in str(caught.value)


NEEDS = "The job needs `permissions: actions: read` and the variable GITHUB_TOKEN."


@pytest.mark.parametrize(
    ("environ", "fault", "said"),
    [
        ({"GITHUB_TOKEN": ""}, None, f"there is no token. {NEEDS}"),
        ({"GITHUB_TOKEN": "ghs_wrong"}, None, "GitHub answered 401: Bad credentials"),
        ({"GITHUB_REPOSITORY": "x"}, None, "GITHUB_REPOSITORY is not `owner/name`"),
        ({"GITHUB_WORKFLOW_REF": ""}, None, "name the workflow, artifact:WORKFLOW.yml/NAME"),
        (
            {"GITHUB_WORKFLOW_REF": "o/r/.github/workflows/new.yml@refs/heads/x"},
            None,
            "GitHub answered 404: Not Found",
        ),
        ({}, Fault(status=403, message="Resource not accessible by integration"), NEEDS),
        ({}, Fault(path="/zip", status=410, message="Artifact has expired"), "410: Artifact has expired"),
    ],
)
def test_what_the_user_can_mend_is_told(
    github: FakeGitHub, environ: dict[str, str], fault: Fault | None, said: str
) -> None:
    keep(github, Run(1), holding("mine"))
    github.faults += [fault] if fault else []
    with pytest.raises(InvalidInputError) as caught:
        store(github, environ=environ).read()
    assert str(caught.value).startswith(f"artifact:{NAME}:baseline.json: ")
    assert said in str(caught.value)
    assert "ghs_" not in str(caught.value)


def bomb() -> bytes:
    return zipped(("baseline.json", b" " * 5_000_000))


def encrypted() -> bytes:
    raw = bytearray(holding("x"))
    raw[6] |= 1
    raw[raw.rindex(b"PK\x01\x02") + 8] |= 1
    return bytes(raw)


def flipped() -> bytes:
    raw = bytearray(holding("x"))
    raw[60] ^= 0xFF
    return bytes(raw)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (lambda: b"", "it is no zip, or damaged"),
        (lambda: b"PK\x03\x04 and so on", "it is no zip, or damaged"),
        (flipped, "damaged"),
        (encrypted, "its `baseline.json` is encrypted"),
        (zipped, "it holds no `baseline.json`, but nothing"),
        (lambda: zipped(("../baseline.json", "{}")), "it holds no `baseline.json`, but ../baseline.json"),
        (
            lambda: zipped(("baseline.json", "{}"), ("baseline.json", "{}")),
            "it holds `baseline.json` 2 times",
        ),
        (bomb, "its `baseline.json` is larger than 4,000,000 bytes"),
        (lambda: zipped(("baseline.json", "{")), "baseline.json of run 1:1:"),
        (lambda: zipped(("baseline.json", '{"kind": "evalgate-baseline"}')), "`schema_version` must be"),
    ],
)
def test_what_is_no_baseline_is_refused(
    github: FakeGitHub, content: object, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifact, "_LARGEST_FILE", 4_000_000)
    assert callable(content)
    keep(github, Run(1), content())
    with pytest.raises(InvalidInputError) as caught:
        store(github).read()
    assert str(caught.value).startswith(f"artifact:{NAME}:baseline.json of run 1")
    assert said in str(caught.value)


@pytest.mark.parametrize("claims", [True, False])
def test_a_zip_that_is_too_large_is_not_kept_in_memory(
    github: FakeGitHub, claims: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifact, "_LARGEST_ZIP", 1000)
    keep(github, Run(1), holding("mine") if not claims else bytes(2000))
    if not claims:
        github.faults.append(Fault(path="_blobs", body=bytes(200_000), times=9))
    with pytest.raises(EvalgateError, match=r"more than a baseline needs|larger than GitHub said"):
        store(github).read()


def test_what_comes_too_slowly_is_given_up(github: FakeGitHub) -> None:
    keep(github, Run(1), holding("mine"))
    github.faults.append(Fault(path="_blobs", drip_s=0.02, times=9))
    slow = replace(store(github), patience=replace(QUICK, total_s=2.0, request_s=1))
    with pytest.raises(NoVerdictError, match="comes too slowly"):
        slow.read()


def test_a_run_is_added_to_what_the_last_one_kept_and_left_to_be_uploaded(
    github: FakeGitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(github, Run(1), holding("old"))
    for name, value in environ_of(github).items():
        monkeypatch.setenv(name, value)
    (tmp_path / "results.json").write_text(dump_record(RECORD), "utf-8")
    shelf = resolve_target(tmp_path, f"artifact:{NAME}", None)
    said = save_baseline("results.json", shelf, BaselineSaveOptions({}, commit="new"))
    assert said == (
        f"Runs of 1 case added to artifact:{NAME}, which now contains 2 gate runs. "
        f"Upload the folder {NAME} as the artifact `{NAME}`."
    )
    content = zipped(("baseline.json", (tmp_path / NAME / "baseline.json").read_bytes()))
    keep(github, Run(2), content)
    assert sorted(map(str, commits_in(store(github).read()))) == ["new", "old"]
    assert github.count("POST") == 0


def test_a_second_suite_of_the_same_job_is_added_to_the_first(github: FakeGitHub, tmp_path: Path) -> None:
    keep(github, Run(1), holding("old"))
    mine = store(github, tmp_path)

    def adding(commit: str, before: Baseline | None) -> Baseline:
        assert before is not None
        return replace(before, sources=(*before.sources, BaselineSource(commit=commit)))

    mine.update(lambda before: adding("a", before))
    assert commits_in(mine.update(lambda before: adding("b", before))) == ["old", "a", "b"]


def test_a_result_in_the_way_is_left_as_it_is(github: FakeGitHub, tmp_path: Path) -> None:
    (tmp_path / "report").mkdir()
    (tmp_path / "report/results.json").write_text(dump_record(RECORD), "utf-8")
    with pytest.raises(
        InvalidInputError, match=r"report/results\.json: this is no baseline, and is left as it is"
    ):
        store(github, tmp_path, "report:results.json").update(lambda _: build_baseline(RECORD))
    assert (tmp_path / "report/results.json").read_text("utf-8") == dump_record(RECORD)


@pytest.mark.parametrize(
    "what", ["", "..", "a/b", "../a", "a:../b", "a:/etc/x", "a b", "x.yml/", "x.yml/a/b", "a:"]
)
def test_a_name_that_leads_elsewhere_is_refused(what: str) -> None:
    with pytest.raises(InvalidInputError, match="must be artifact:NAME"):
        resolve_baseline_store(f"artifact:{what}", StoreContext(Path()))
