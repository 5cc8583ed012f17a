"""A pull request cannot soften the rules that it is gated by."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from evalgate.baselines.history import build_baseline
from evalgate.baselines.serialization import dump_baseline
from evalgate.config.cli_overrides import Overrides
from evalgate.core.errors import InvalidInputError
from evalgate.core.protocols import LlmJudged
from evalgate.core.types import BaselineSource
from evalgate.llm.caching import ResponseCache
from evalgate.llm.prompt_templates import Prompt
from evalgate.runner.base_branch import Policy, RuleFiles
from evalgate.runner.baseline_stores import open_baseline_file
from evalgate.runner.plan import Plan, build_plan
from tests.builders import a_case_result, a_record

PULL_REQUEST = {"GITHUB_EVENT_NAME": "pull_request", "GITHUB_BASE_REF": "main"}
AZURE = {"BUILD_REASON": "PullRequest", "SYSTEM_PULLREQUEST_TARGETBRANCH": "refs/heads/main"}
BITBUCKET = {"BITBUCKET_PR_ID": "7", "BITBUCKET_PR_DESTINATION_BRANCH": "main"}
JENKINS = {"JENKINS_URL": "https://ci.example.com/", "CHANGE_ID": "7", "CHANGE_TARGET": "main"}
BUILDKITE = {"BUILDKITE_PULL_REQUEST": "7", "BUILDKITE_PULL_REQUEST_BASE_BRANCH": "main"}
CASE = {"eval_id": "hello", "conversation": [{"user_content": {"parts": [{"text": "Hello"}]}}]}


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.com", "-c", "init.defaultBranch=main")
    done = subprocess.run(["git", *who, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def thresholds(least: float, **gate: str) -> str:
    return json.dumps(
        {
            "version": 1,
            "eval_sets": ["a.json"],
            "agent": {"entry": "a.py:answer"},
            "criteria": {"response_match_score": least},
            "gate": gate,
        },
        indent=1,
    )


def baseline(commit: str) -> str:
    return dump_baseline(build_baseline(a_record(a_case_result()), BaselineSource(commit=commit)))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Checked out as a merge of a branch that edits the rules, in a folder of the repository."""
    folder = tmp_path / "repository" / "desk"
    folder.mkdir(parents=True)
    git(folder.parent, "init", "-q")
    (folder / "a.json").write_text(json.dumps({"eval_set_id": "a", "eval_cases": [CASE]}))
    (folder / "evalgate.json").write_text(thresholds(1.0, baseline="base.json"))
    (folder / "base.json").write_text(baseline("old"))
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "Rules")
    git(folder, "update-ref", "refs/remotes/origin/main", "HEAD")
    (folder / "evalgate.json").write_text(thresholds(0.1, baseline="base.json"))
    (folder / "base.json").write_text(baseline("new"))
    git(folder, "commit", "-q", "-a", "-m", "Soften them")
    return folder


def plan_in(folder: Path, policy: Policy | None = None, environ: dict[str, str] | None = None) -> Plan:
    said = Overrides(policy=policy)
    return build_plan(
        said, thresholds_file=None, folder=folder, environ=PULL_REQUEST if environ is None else environ
    )


def test_a_reader_learns_which_state_of_the_baseline_it_was(repository: Path) -> None:
    then = plan_in(repository).baseline_store
    now = plan_in(repository, "head").baseline_store
    assert then is not None
    assert now is not None
    found = [store.read() for store in (then, now)]
    base = git(repository, "rev-parse", "HEAD^1")
    assert [each.version for each in found if each] == [f"as the base branch has it at `{base[:12]}`", ""]


def test_a_change_cannot_remove_the_baseline_that_nobody_names(repository: Path) -> None:
    (repository / "evalgate.json").write_text(thresholds(1.0))
    (repository / ".evalgate").mkdir()
    (repository / ".evalgate/baseline.json").write_text(baseline("old"))
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "No name for it")
    git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    git(repository, "rm", "-q", ".evalgate/baseline.json")
    git(repository, "commit", "-q", "-m", "Remove it")
    plan = plan_in(repository)
    assert plan.baseline_store is not None
    found = plan.baseline_store.read()
    assert found is not None
    assert found.sources[0].commit == "old"
    assert plan_in(repository, "head").baseline_store is None


@pytest.mark.parametrize(
    ("policy", "environ", "is_said"),
    [
        ("base", PULL_REQUEST, True),
        (None, PULL_REQUEST, True),
        ("head", PULL_REQUEST, False),
        (None, {}, False),
    ],
)
def test_a_change_that_brings_its_own_eval_sets_is_told_by_name(
    repository: Path, policy: Policy | None, environ: dict[str, str], is_said: bool
) -> None:
    """The mocks and final states in them are its own; those of a thresholds file are the base's."""
    (repository / "sets").mkdir()
    for name in ("edited", "same", "late", "gone"):
        (repository / f"sets/{name}.test.json").write_text(
            json.dumps({"eval_set_id": name, "eval_cases": [CASE]})
        )
    (repository / "sets/gone.test.json.metrics.json").write_text("[]")
    mocks = {"tool_mocks": [{"tool": "look", "result": 1}]}
    (repository / "evalgate.json").write_text(
        json.dumps(json.loads(thresholds(1.0)) | {"eval_sets": ["a.json", "sets"]} | mocks)
    )
    git(repository, "add", ".", ":!sets/late.test.json")
    git(repository, "commit", "-q", "-m", "More sets")
    git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    edited = repository / "sets/edited.test.json"
    edited.write_text(edited.read_text().replace("Hello", "Bye"))
    (repository / "sets/same.test.json.cases.yaml").write_text("cases: {hello: {status: observed}}\n")
    (repository / "evalgate.json").write_text(
        (repository / "evalgate.json").read_text().replace('"result": 1', '"result": 2')
    )
    (repository / "sets/gone.test.json").unlink()
    (repository / "sets/gone.test.json.metrics.json").unlink()
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "Ask other things")

    plan = plan_in(repository, policy, environ)

    brought = ["sets/edited.test.json", "sets/late.test.json", "sets/same.test.json.cases.yaml"]
    said = [notice for notice in plan.notices if notice.startswith("The change brought its own:")]
    assert [each.partition(". ")[0] for each in said] == (
        [f"The change brought its own: {', '.join(brought)}"] if is_said else []
    )
    assert [each for each in plan.notices if each.startswith("The change removes")] == (
        [
            "The change removes sets/gone.test.json, which the base branch has: the cases in there were not run."
        ]
        if is_said
        else []
    )
    mock = plan.suites[0].eval_set.cases[0].tool_mocks[0]
    assert mock.result == (1 if is_said else 2)


def rules_of(plan: Plan) -> tuple[float, str | None]:
    assert plan.baseline_store is not None
    found = plan.baseline_store.read()
    commit = found.sources[-1].commit if found else None
    return plan.suites[0].metrics[0].criterion.threshold, commit


@pytest.mark.parametrize(
    ("policy", "environ", "expected"),
    [
        (None, PULL_REQUEST, (1.0, "old")),
        ("base", PULL_REQUEST, (1.0, "old")),
        ("head", PULL_REQUEST, (0.1, "new")),
        (None, {}, (0.1, "new")),
        (None, {"GITHUB_EVENT_NAME": "push"}, (0.1, "new")),
        (None, {"CI_MERGE_REQUEST_IID": "3", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main"}, (1.0, "old")),
    ],
)
def test_the_rules_are_those_of_the_branch_that_a_change_goes_to(
    repository: Path, policy: Policy | None, environ: dict[str, str], expected: tuple[float, str]
) -> None:
    assert rules_of(plan_in(repository, policy, environ)) == expected


def test_an_edit_of_the_rules_is_told(repository: Path) -> None:
    notices = plan_in(repository).notices
    assert notices[0] == (
        "This change edits evalgate.json, but the gate goes by the version of the base branch: "
        '[- "response_match_score": 1.0] [+ "response_match_score": 0.1]'
    )
    assert notices[1].startswith("This change edits base.json, but the gate goes by the version of the base")
    assert plan_in(repository, "head").notices == (
        (
            "The change is gated by its own thresholds, baseline, prompts and code of metrics, not by those of "
            "the branch that it goes to: `--policy head`."
        ),
    )


def test_edits_are_those_of_the_change_if_git_cannot_tell(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = RuleFiles(repository, PULL_REQUEST)
    monkeypatch.setattr(RuleFiles, "_common_commits", ["0" * 40])
    assert rules.list_changed_files("evalgate.json") == ["evalgate.json"]
    assert rules.list_outdated_files("evalgate.json") == []


def test_what_only_the_base_branch_has_edited_is_no_edit_of_the_change(repository: Path) -> None:
    """The checkout is no merge, as in Buildkite, and the base branch moved on."""
    git(repository, "checkout", "-q", "-b", "moved", "refs/remotes/origin/main")
    rules = json.loads(thresholds(0.9, baseline="base.json")) | {"eval_sets": ["[ab].json"]}
    (repository / "evalgate.json").write_text(json.dumps(rules, indent=1))
    for name in ("a.json", "b.json"):
        (repository / name).write_text(
            json.dumps({"eval_set_id": name, "eval_cases": [CASE, CASE | {"eval_id": "bye"}]})
        )
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "Meanwhile")
    git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    git(repository, "checkout", "-q", "--detach", "HEAD^")
    (repository / "base.json").write_text(baseline("new"))
    git(repository, "commit", "-q", "-a", "-m", "Its own baseline")

    plan = plan_in(repository)

    assert rules_of(plan) == (0.9, "old")
    assert [each for each in plan.notices if "json" in each] == [
        (
            "evalgate.json is as it was when the change branched off; the gate goes by the newer version of "
            'the base branch: [- "a.json"] [+ "[ab].json"] [- "response_match_score": 1.0] '
            '[+ "response_match_score": 0.9]'
        ),
        (
            "The base branch has newer versions since the change branched off: a.json. What eval sets and "
            "their notes expect, with the tool mocks and final states in them, is as it was then."
        ),
        "The base branch has b.json since the change branched off: the cases in there were not run.",
        next(each for each in plan.notices if each.startswith("This change edits base.json, but the gate")),
    ]


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        ("../rules.json", '"response_match_score": 0.1}'),
        ("../../secret", "[+ a link that leads out of the repository]"),
        ("/proc/self/environ", "[+ a link that leads out of the repository]"),
    ],
)
def test_an_edit_shows_no_file_of_elsewhere(repository: Path, target: str, shown: str) -> None:
    """The gate may be root, and the notice is public."""
    (repository.parent.parent / "secret").write_text("secret\n")
    rules = json.dumps(json.loads(thresholds(1.0)))
    (repository / "evalgate.json").write_text(rules)
    git(repository, "commit", "-q", "-a", "-m", "Rules of one line")
    git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    (repository.parent / "rules.json").write_text(rules.replace("1.0", "0.1"))
    (repository / "evalgate.json").unlink()
    (repository / "evalgate.json").symlink_to(target)
    git(repository, "add", ":/")
    git(repository, "commit", "-q", "-m", "A link")
    notice = plan_in(repository).notices[0]
    assert shown in notice
    assert "secret" not in notice


def test_a_baseline_that_the_change_brings_along_is_none(repository: Path) -> None:
    git(repository, "rm", "-q", "base.json")
    git(repository, "commit", "-q", "-m", "Without")
    git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    (repository / "base.json").write_text(baseline("planted"))
    git(repository, "add", ".")
    assert rules_of(plan_in(repository)) == (0.1, None)


@pytest.mark.parametrize("kind", ["link", "folder"])
def test_a_baseline_that_is_no_file_on_the_base_either_is_not_a_missing_one(
    repository: Path, kind: str
) -> None:
    (repository / "evalgate.json").write_text(thresholds(1.0))
    place = repository / ".evalgate/baseline.json"
    place.parent.mkdir()
    if kind == "link":
        place.symlink_to("gone.json")
    else:
        place.mkdir()
        (place / "kept.txt").touch()
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "No file")
    git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    store = plan_in(repository).baseline_store
    assert store is not None
    with pytest.raises(InvalidInputError, match=rf"^\.evalgate/baseline\.json: is a {kind}"):
        store.read()


def test_rules_that_the_base_does_not_have_are_told(repository: Path) -> None:
    for file in ("base.json", "evalgate.json"):
        git(repository, "rm", "-q", "--cached", file)
    git(repository, "commit", "-q", "-m", "Without")
    git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    git(repository, "add", ".")
    plan = plan_in(repository)
    assert rules_of(plan) == (0.1, None)
    assert plan.notices[:2] == (
        "evalgate.json is new in this change: the base branch has none, so the change's own holds.",
        "base.json is new in this change: the base branch has none, so nothing is compared with it.",
    )


def test_a_baseline_that_is_no_part_of_the_repository_is_read_where_it_is(repository: Path) -> None:
    git(repository, "rm", "-q", "base.json")
    git(repository, "commit", "-q", "-m", "Without")
    git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    (repository / "base.json").write_text(baseline("downloaded"))
    assert rules_of(plan_in(repository)) == (0.1, "downloaded")


def test_the_base_that_nobody_fetched_is_told(repository: Path) -> None:
    git(repository, "update-ref", "-d", "refs/remotes/origin/main")
    plan = plan_in(repository)
    assert rules_of(plan) == (0.1, "new")
    assert plan.notices == (
        (
            "evalgate.json, base.json were read as the change has them, for git does not know here what the "
            "change is merged into. Check out with `fetch-depth: 2`, so that no change can soften its own rules."
        ),
    )
    with pytest.raises(InvalidInputError, match="--policy base: git does not know here"):
        plan_in(repository, "base")


@pytest.mark.parametrize("depth", [1, 2, 50])
def test_a_shallow_checkout_is_told_of_once_for_all_files(
    repository: Path, tmp_path: Path, depth: int
) -> None:
    rules = thresholds(0.1, baseline="base.json", quarantine="q.yaml")
    rest = {"case": "hello", "owner": "anna", "reason": "slow", "expires": "2999-12-31"}
    (repository / "evalgate.json").write_text(rules)
    (repository / "q.yaml").write_text(json.dumps([rest]))
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "Rules")
    git(repository, "checkout", "-q", "-b", "change")
    git(repository, "commit", "-q", "--allow-empty", "-m", "Change")
    git(repository, "checkout", "-q", "--detach", "HEAD^")
    git(repository, "merge", "-q", "--no-ff", "-m", "Merge", "change")
    theirs = tmp_path / "theirs"
    git(tmp_path, "clone", "-q", f"--depth={depth}", repository.parent.as_uri(), str(theirs))
    made = {
        "GITHUB_EVENT_NAME": "pull_request",
        "GITHUB_REF": "refs/pull/7/merge",
        "GITHUB_SHA": git(theirs, "rev-parse", "HEAD").strip(),
    }
    told = [each for each in plan_in(theirs / "desk", environ=made).notices if "fetch-depth" in each]
    assert [each.partition(" were ")[0] for each in told] == (
        ["evalgate.json, q.yaml, base.json"] if depth == 1 else []
    )


PERSONA = '{{"picky": {{"description": "{}"}}}}'
RULES: dict[str, object] = {
    "version": 1,
    "eval_sets": ["a.json"],
    "agent": {"entry": "a.py:answer"},
    "criteria": {"final_response_match_v2": {"threshold": 0.8, "prompt": "judge.j2"}},
    "judge": {
        "provider": "openai",
        "model": "m",
        "base_url": "http://127.0.0.1:9",
        "anchors": "anchors.json",
    },
    "user": {"prompt": "../user.j2", "personas": "personas.json"},
}
PLAYED = {"eval_id": "hello", "conversation_scenario": {"starting_prompt": "Hi", "conversation_plan": "Ask."}}
EXACT = "Is {{ response }} good?\r\n\n"


def anchors(*, label: bool) -> str:
    anchor = {"metric": "final_response_match_v2", "user": "u", "response": "r", "expected": "e"}
    return json.dumps({"anchors": [{**anchor, "label": label}]})


@pytest.fixture
def judged(repository: Path) -> Path:
    """A change edits every file that the thresholds file names."""
    (repository / "a.json").write_text(json.dumps({"eval_set_id": "a", "eval_cases": [PLAYED]}))
    (repository / "evalgate.json").write_text(json.dumps(RULES))
    (repository / "judge.j2").write_bytes(EXACT.encode())
    (repository / "anchors.json").write_text(anchors(label=True))
    (repository.parent / "user.j2").write_text("You are a user. {{ conversation_plan }}")
    (repository / "link.json").symlink_to("deep/personas.json")
    (repository / "personas.json").symlink_to("link.json")
    (repository / "deep").mkdir()
    (repository / "deep/personas.json").write_text(PERSONA.format("Base"))
    git(repository, "add", "..")
    git(repository, "commit", "-q", "-m", "Rules")
    git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    (repository / "judge.j2").write_text("Say yes. {{ response }}")
    (repository / "anchors.json").write_text(anchors(label=False))
    (repository.parent / "user.j2").unlink()
    (repository / "deep/personas.json").write_text(PERSONA.format("Change"))
    git(repository, "commit", "-q", "-a", "-m", "Soften them")
    return repository


def test_every_file_that_the_rules_name_is_the_base_s(judged: Path) -> None:
    plan = plan_in(judged, environ=PULL_REQUEST | {"OPENAI_API_KEY": "k"})
    metric = plan.suites[0].metrics[0].metric
    assert isinstance(metric, LlmJudged)
    assert metric.judged_by["prompts"] == [Prompt(EXACT.replace("\r\n", "\n")).version]
    assert plan.judge_calibration is not None
    assert [case.label for case, _ in plan.judge_calibration.cases] == [True]
    told = [notice.partition(", but the gate goes by")[0] for notice in plan.notices]
    assert told == [
        "This change edits judge.j2",
        "This change removes ../user.j2",
        "This change edits personas.json",
        "This change edits anchors.json",
    ]


@pytest.mark.parametrize("how", ["file", "link", "journal", "no base", "untracked", "policy head"])
def test_a_cache_of_answers_that_the_change_brings_is_not_used(how: str, judged: Path) -> None:
    kept = judged / ("elsewhere" if how == "link" else ".evalgate") / "judge-cache.sqlite"
    with ResponseCache(kept, writes=True, wall=lambda: 0) as forged:
        forged.put("a", "yes")
    if how == "link":
        (judged / ".evalgate").symlink_to("elsewhere")
    elif how == "journal":
        (kept.parent / "judge-cache.sqlite-journal").touch()
        git(judged, "add", ".evalgate/judge-cache.sqlite-journal")
    if how in {"file", "link", "no base", "policy head"}:
        git(judged, "add", ".")
    (judged.parent / "user.j2").touch()  # which the change removed
    if how == "no base":
        git(judged, "update-ref", "-d", "refs/remotes/origin/main")
    plan = plan_in(judged, "head" if how == "policy head" else None, PULL_REQUEST | {"OPENAI_API_KEY": "k"})
    (cache,) = plan.judge_resolver.models.reserved_caches
    plan.judge_resolver.models.trust_stored_answers()

    is_used = how in {"untracked", "policy head"}
    with cache:
        assert cache.get("a") == ("yes" if is_used else None)
    assert any("so no answer in it was used" in notice for notice in plan.notices) is not is_used


def test_a_cache_of_answers_that_only_the_base_branch_has_edited_is_used(judged: Path) -> None:
    """The checkout is no merge, as in Buildkite, and the base branch moved on."""
    (judged.parent / "user.j2").touch()  # which the change removed
    for text in ("yes", "no"):
        with ResponseCache(judged / ".evalgate/judge-cache.sqlite", writes=True, wall=lambda: 0) as kept:
            kept.put(text, text)
        git(judged, "add", ".")
        git(judged, "commit", "-q", "-m", text)
    git(judged, "update-ref", "refs/remotes/origin/main", "HEAD")
    git(judged, "checkout", "-q", "--detach", "HEAD^")

    plan = plan_in(judged, None, PULL_REQUEST | {"OPENAI_API_KEY": "k"})
    (cache,) = plan.judge_resolver.models.reserved_caches
    plan.judge_resolver.models.trust_stored_answers()

    with cache:
        assert cache.get("yes") == "yes"
    assert not [notice for notice in plan.notices if "so no answer in it was used" in notice]


def test_a_prompt_that_is_new_is_said(judged: Path) -> None:
    git(judged, "rm", "-q", "--cached", "judge.j2")
    (judged.parent / "user.j2").write_text("You are a user. {{ conversation_plan }}")
    git(judged, "commit", "-q", "-m", "Without")
    git(judged, "update-ref", "refs/remotes/origin/main", "HEAD")
    git(judged, "add", "..")
    notice = "judge.j2 is new in this change: the base branch has none, so the change's own holds."
    assert notice in plan_in(judged, environ=PULL_REQUEST | {"OPENAI_API_KEY": "k"}).notices


@pytest.mark.parametrize("name", ["test_config.json", "a.metrics.json"])
@pytest.mark.parametrize("way", ["edited", "removed", "replaced"])
def test_rules_next_to_an_eval_set_are_the_base_s(repository: Path, name: str, way: str) -> None:
    trpc = [
        {"metricName": "tool_trajectory_avg_score", "threshold": 1.0, "criterion": {"toolTrajectory": {}}}
    ]
    rules = {"test_config.json": {"criteria": {"response_match_score": 1.0}}, "a.metrics.json": trpc}
    own = {key: each for key, each in json.loads(thresholds(1.0)).items() if key != "criteria"}
    (repository / "evalgate.json").write_text(json.dumps(own))
    (repository / name).write_text(json.dumps(rules[name]))
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "Rules")
    git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    if way == "edited":
        (repository / name).write_text(json.dumps(rules[name]).replace("1.0", "0.1"))
    else:
        (repository / name).unlink()
    if way == "replaced":
        (repository / "a.evalset.metrics.json").write_text(json.dumps(trpc).replace("1.0", "0.1"))
    git(repository, "add", ".")
    plan = plan_in(repository)
    assert plan.suites[0].metrics[0].criterion.threshold == 1.0
    assert any(name in notice for notice in plan.notices)


def test_a_thresholds_file_of_another_name_takes_the_place_of_none(repository: Path) -> None:
    (repository / "evalgate.yaml").write_text(thresholds(0.0, baseline="base.json"))
    git(repository, "rm", "-q", "evalgate.json")
    git(repository, "add", ".")
    plan = plan_in(repository)
    assert rules_of(plan) == (1.0, "old")
    assert plan.notices[0].startswith("This change removes evalgate.json, but the gate goes by")


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        (AZURE, "Set `fetchDepth: 2` at the `checkout` step, so that"),
        (BITBUCKET, "Set `depth: full` in the section `clone`, so that"),
        (JENKINS, r"Run `git fetch origin \+refs/heads/main:refs/remotes/origin/main` first, so"),
        (BUILDKITE, r"Run `git fetch origin \+refs/heads/main:refs/remotes/origin/main` first, so"),
        ({"CI_MERGE_REQUEST_IID": "3"}, "Set `GIT_DEPTH: 0` in the job, so that"),
        ({}, "--policy base: no variable of a CI service says here whether a pull request is tested"),
    ],
)
def test_the_base_policy_refuses_where_the_base_cannot_be_read(
    repository: Path, environ: dict[str, str], message: str
) -> None:
    git(repository, "update-ref", "-d", "refs/remotes/origin/main")
    with pytest.raises(InvalidInputError, match=message):
        plan_in(repository, "base", environ)


@pytest.mark.parametrize("environ", [AZURE, BITBUCKET, JENKINS, BUILDKITE])
def test_every_service_s_pull_requests_are_gated_by_the_base(
    repository: Path, environ: dict[str, str]
) -> None:
    assert rules_of(plan_in(repository, environ=environ)) == (1.0, "old")


@pytest.mark.parametrize(
    "environ",
    [
        {"BUILD_REASON": "IndividualCI"},
        {"BITBUCKET_BUILD_NUMBER": "4"},
        {"JENKINS_URL": "https://ci.example.com/"},
        {"BUILDKITE_PULL_REQUEST": "false"},
    ],
)
def test_a_branch_to_stay_is_gated_by_its_own_rules(repository: Path, environ: dict[str, str]) -> None:
    assert rules_of(plan_in(repository, "base", environ)) == (0.1, "new")


def test_the_baseline_of_another_branch_is_not_changed(repository: Path) -> None:
    with RuleFiles(repository, PULL_REQUEST) as base:
        store = open_baseline_file(base, "base.json", None)
    with pytest.raises(InvalidInputError, match="cannot be changed from here"):
        store.update(lambda before: before or build_baseline(a_record()))


def plan_with(thresholds_file: str, repository: Path) -> Plan:
    chosen = Overrides(eval_sets=("a.json",), agent="python:a.py:answer")
    return build_plan(chosen, thresholds_file=thresholds_file, folder=repository, environ=PULL_REQUEST)


def test_rules_in_a_linked_folder_are_the_base_s(repository: Path) -> None:
    (repository / "rules").mkdir()
    (repository / "rules/gate.json").write_text(thresholds(1.0, baseline="../link/base.json"))
    (repository / "rules/base.json").write_text(baseline("old"))
    (repository / "link").symlink_to("rules")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "A link")
    git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    (repository / "rules/gate.json").write_text(thresholds(0.1, baseline="../link/base.json"))
    git(repository, "commit", "-q", "-a", "-m", "Soften them")
    plan = plan_with("link/gate.json", repository)
    assert plan.suites[0].metrics[0].criterion.threshold == 1.0
    assert "This change edits link/gate.json, but the gate goes by the version" in plan.notices[0]


def test_a_folder_in_the_place_of_the_thresholds_file_is_not_used(repository: Path) -> None:
    git(repository, "rm", "-q", "evalgate.json")
    (repository / "evalgate.json").mkdir()
    (repository / "evalgate.json/test_config.json").write_text('{"criteria": {"response_match_score": 0}}')
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "A folder of criteria")
    plan = plan_with("evalgate.json", repository)
    assert rules_of(plan) == (1.0, "old")
    assert plan.notices[0].startswith("This change removes evalgate.json, but the gate goes by the version")


def test_a_file_in_the_place_of_the_folder_of_criteria_is_not_used(repository: Path) -> None:
    (repository / "criteria").mkdir()
    (repository / "criteria/test_config.json").write_text('{"criteria": {"response_match_score": 0.9}}')
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "A folder of criteria")
    git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    git(repository, "rm", "-q", "-r", "criteria")
    (repository / "criteria").write_text('{"criteria": {"response_match_score": 0}}')
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "A file")
    plan = plan_with("criteria", repository)
    assert plan.suites[0].metrics[0].criterion.threshold == 0.9


@pytest.fixture
def linked_sets(repository: Path) -> Path:
    """Eval sets behind links, as the base branch has them; rules that name them, and a set of elsewhere."""
    (repository.parent / "outside.json").write_text(json.dumps({"eval_set_id": "o", "eval_cases": [CASE]}))
    (repository / "real").mkdir()
    for name in ("edited", "same", "gone"):
        eval_set = {"eval_set_id": name, "eval_cases": [CASE]}
        (repository / f"real/{name}.test.json").write_text(json.dumps(eval_set))
    (repository / "more").mkdir()
    (repository / "more/one.test.json").write_text(json.dumps({"eval_set_id": "one", "eval_cases": [CASE]}))
    (repository / "sets").symlink_to("real")
    (repository / "newest").symlink_to("real/same.test.json")
    rules = json.loads(thresholds(1.0)) | {"eval_sets": ["sets/*.json", "newest", "../outside.json"]}
    (repository / "evalgate.json").write_text(json.dumps(rules))
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "Links")
    git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    return repository


def test_edits_of_linked_eval_sets_are_told(linked_sets: Path) -> None:
    edited = linked_sets / "real/edited.test.json"
    edited.write_text(edited.read_text().replace("Hello", "Bye"))
    (linked_sets / "real/gone.test.json").unlink()
    git(linked_sets, "commit", "-q", "-a", "-m", "Ask other things")
    brought, removed = plan_in(linked_sets).notices
    assert brought.startswith("The change brought its own: real/edited.test.json. ")
    assert removed.startswith("The change removes real/gone.test.json, which")


def test_a_link_that_leads_to_another_eval_set_is_told(linked_sets: Path) -> None:
    (linked_sets / "newest").unlink()
    (linked_sets / "newest").symlink_to("more/one.test.json")
    git(linked_sets, "commit", "-q", "-a", "-m", "Ask other things")
    (brought,) = plan_in(linked_sets).notices
    assert brought.startswith("The change brought its own: newest. ")


def test_a_pattern_in_a_folder_that_became_a_link_means_no_files_next_to_the_folder(repository: Path) -> None:
    eval_set = json.dumps({"eval_set_id": "set", "eval_cases": [CASE]})
    for name in ("sets/other.json", "sets/sub/run.json", "real/sub/run.json"):
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text(eval_set)
    rules = json.loads(thresholds(1.0)) | {"eval_sets": ["sets/sub/*.json"]}
    (repository / "evalgate.json").write_text(json.dumps(rules))
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "Sets")
    git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    shutil.rmtree(repository / "sets")
    (repository / "sets").symlink_to("real")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "A link")
    (removed,) = (each for each in plan_in(repository).notices if each.startswith("The change removes"))
    assert removed.startswith("The change removes sets/sub/run.json, which")


def test_rules_that_are_new_behind_a_link_are_told(linked_sets: Path) -> None:
    (linked_sets / "evalgate.json").write_text('{"eval_sets": ["sets"], "agent": {"entry": "a.py:answer"}}')
    git(linked_sets, "commit", "-q", "-a", "-m", "No criteria of its own")
    git(linked_sets, "update-ref", "refs/remotes/origin/main", "HEAD")
    (linked_sets / "real/test_config.json").write_text('{"criteria": {"response_match_score": 0.1}}')
    git(linked_sets, "add", ".")
    git(linked_sets, "commit", "-q", "-m", "Softer rules")
    assert plan_in(linked_sets).notices == (
        "sets/test_config.json is new in this change: the base branch has none, so the change's own holds.",
    )


def test_edits_are_told_of_more_eval_sets_than_git_takes_at_once(repository: Path) -> None:
    rules = json.loads(thresholds(1.0)) | {"eval_sets": ["a.json", "sets/*.json"]}
    (repository / "evalgate.json").write_text(json.dumps(rules))
    git(repository, "commit", "-q", "-a", "-m", "More sets")
    git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    (repository / "sets").mkdir()
    for number in range(250):
        eval_set = {"eval_set_id": f"{number}", "eval_cases": [CASE]}
        (repository / f"sets/{number}.json").write_text(json.dumps(eval_set))
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "Many")
    (brought,) = plan_in(repository).notices
    assert " and 244 files more. What eval sets" in brought
