"""Which suites a changed file concerns, by the globs of the thresholds file."""

import pytest

from evalgate.gating.affected_suites import (
    AffectedSuites,
    ChangeRules,
    SuiteScope,
    build_job_matrix,
    build_json,
    explain_file,
    find_affected_suites,
    format_report,
)
from evalgate.gating.environment_files import ENVIRONMENT_FILES, matches_pattern

REFUNDS = SuiteScope(
    "refunds", ("refunds",), frozenset({"evals/refunds.evalset.json"}), ("agents/refunds", "agent.py")
)
SEARCH = SuiteScope(
    "search", ("search",), frozenset({"evals/search.evalset.json"}), ("prompts/**", "agent.py")
)
RULES = ChangeRules(
    (REFUNDS, SEARCH), ("**/*.md", "frontend/**"), frozenset({"evalgate.yaml", "judge/prompt.md"})
)
BOTH = ("refunds", "search")


@pytest.mark.parametrize(
    ("path", "suites"),
    [
        ("agents/refunds/tools/pay.py", ("refunds",)),
        (
            "Agents/Refunds/pay.py",
            ("refunds",),
        ),  # where letters' case makes no difference, it is the same file
        ("agents/refunds", ("refunds",)),
        ("agents/refunds2/pay.py", BOTH),
        ("prompts/a/b.txt", ("search",)),
        ("prompts/readme.md", ("search",)),  # `affects` counts more than `ignored`
        ("agent.py", BOTH),
        ("evals/refunds.evalset.json", ("refunds",)),
        ("evals", BOTH),  # a folder that became a link, or the other way round
        ("docs/page.md", ()),
        ("docs/page.MD", BOTH),  # what is ignored is taken literally
        ("../docs/page.md", BOTH),
        ("judge/prompt.md", BOTH),
        ("evalgate.yaml", BOTH),
        ("unknown.py", BOTH),
        ("agents/refunds/requirements.txt", BOTH),
        ("agents/refunds/uv.lock", BOTH),
        ("frontend/package-lock.json", ()),
        (".github/workflows/evalgate.yml", BOTH),
        ("../.github/workflows/evalgate.yml", BOTH),
        (".gitlab/ci/evaluation.yml", BOTH),
    ],
)
def test_a_file_concerns_the_suites_that_name_it_and_an_unknown_one_all(
    path: str, suites: tuple[str, ...]
) -> None:
    found = explain_file(RULES, path)
    assert found.suites == suites
    assert found.sentence.startswith(path)


@pytest.mark.parametrize(
    "path",
    [
        "poetry.lock",
        "a/pnpm-lock.yaml",
        "requirements/dev.in",
        "Dockerfile.gpu",
        "a/compose.yaml",
        ".env",
        "dockerfile",
        "bun.lockb",
    ],
)
def test_files_that_decide_what_is_installed_concern_all_suites_whatever_is_declared(path: str) -> None:
    declared = ChangeRules((SuiteScope("a", ("a",), frozenset(), ("**",)), SEARCH))
    assert explain_file(declared, path).suites == ("a", "search")
    assert any(matches_pattern(path, glob, ignore_case=True) for glob in ENVIRONMENT_FILES)


def test_a_suite_without_globs_is_concerned_by_every_file_that_is_not_ignored() -> None:
    always_affected_because = SuiteScope(
        "all", ("all",), frozenset(), (), always_affected_because="has no `affects`"
    )
    rules = ChangeRules((REFUNDS, always_affected_because), ("**/*.md",))
    assert explain_file(rules, "agents/refunds/pay.py").suites == ("refunds", "all")
    assert explain_file(rules, "README.md").suites == ()


def test_an_ignored_file_next_to_those_that_the_agent_opens_may_be_opened_as_well() -> None:
    reader = SuiteScope(
        "reader", ("reader",), frozenset(), (), opened=frozenset({"prompts/a.md", "tools/pay.py"})
    )
    rules = ChangeRules((REFUNDS, reader), ("**/*.md", "**/test_*.py"))
    paths = ("prompts/new.md", "prompts/a.md", "README.md", "prompts/more/b.md", "tools/test_pay.py")
    assert [explain_file(rules, path).suites for path in paths] == [("reader",), ("reader",), (), (), ()]


@pytest.mark.parametrize(
    ("path", "pattern", "matches"),
    [
        ("a.md", "*.md", True),
        ("a/b.md", "*.md", False),
        ("a/b.md", "**/*.md", True),
        ("b.md", "**/*.md", True),
        ("docs/a/b.py", "docs", True),
        ("docs/a/b.py", "docs/", True),
        ("docs/a/b.py", "docs/*", False),
        ("docs/a/b.py", "docs/**", True),
        ("docs/a/b.py", "docs/**/b.py", True),
        ("docs/b.py", "docs/**/b.py", True),
        ("../a/b.md", "**/*.md", False),
        ("../a/b.md", "../**/*.md", True),
        ("../a/b.md", "*/a/b.md", False),
        ("../../b.md", "../**", False),
        ("a[1].txt", "a[[]1].txt", True),
    ],
)
def test_globs(path: str, pattern: str, matches: bool) -> None:
    assert matches_pattern(path, pattern) is matches


def test_the_reports_say_what_runs_and_why() -> None:
    found = find_affected_suites(RULES, ["prompts/a.txt", "README.md"], "origin/main")
    assert found.names == ("search",)
    assert format_report(found).splitlines() == [
        "The change (2 files since origin/main) concerns 1 of 2 suites: search.",
        "skipped: refunds",
        "runs: search. prompts/a.txt matches `prompts/**` of search.",
    ]
    assert build_job_matrix(found) == {"include": [{"suite": "search", "eval_sets": "search"}]}
    suites = build_json(found)["suites"]
    assert isinstance(suites, list)
    assert [(each["suite"], each["affected"]) for each in suites] == [("refunds", False), ("search", True)]


def test_if_nothing_is_concerned_the_matrix_has_a_leg_all_the_same() -> None:
    found = find_affected_suites(RULES, ["README.md"], "main")
    assert (found.names, found.is_everything) == ((), False)
    assert build_job_matrix(found) == {"include": [{"suite": "none", "eval_sets": ""}]}


def test_an_unknown_file_is_the_reason_that_is_named_first() -> None:
    found = find_affected_suites(RULES, ["agent.py", "unknown.py"], "main")
    assert found.describe() == ("Every suite runs: unknown.py matches no `affects` and no `ignored`.")
    assert found.list_reasons("refunds")[0].startswith("unknown.py")


def test_a_change_that_cannot_be_told_concerns_everything() -> None:
    found = AffectedSuites(RULES, everything="git failed: no such commit")
    assert (found.names, found.is_everything) == (BOTH, True)
    assert format_report(found).splitlines()[1:] == ["runs: refunds", "runs: search"]
