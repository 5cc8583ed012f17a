"""`--tag`, `-k`, `--failed` and `--sample`: which cases they run, and what such a run may decide."""

import json
import re
import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from evalgate.__main__ import main
from evalgate.runner.selection_options import Candidate, allocate_sample, draw_sample

PAGE = (Path(__file__).parents[2] / "docs/select-cases.md").read_text("utf-8")
TAGS = {
    "refund_late": "refunds",
    "refund_early": "refunds",
    "refund_fr": "smoke",
    "greets": "smoke",
    "history": "slow",
}


def build_set(wrong: tuple[str, ...] = ()) -> dict[str, Any]:
    def build_turn(name: str, reply: str) -> dict[str, Any]:
        return {
            "user_content": {"parts": [{"text": name}]},
            "final_response": {"parts": [{"text": reply}]},
        }

    cases = [
        {"eval_id": name, "conversation": [build_turn(name, "bad" if name in wrong else "good")]}
        for name in TAGS
    ]
    return {"eval_set_id": "shop", "eval_cases": cases}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    rules = [f"- {{ids: [{name}], tag: [{tag}]}}\n" for name, tag in TAGS.items()]
    (tmp_path / "evalgate.yaml").write_text(
        "agent: {kind: replay, path: recorded.evalset.json}\neval_sets: [shop.evalset.json]\n"
        f"criteria: {{response_match_score: 1.0}}\ngate: {{min_cases: 5}}\ncases:\n{''.join(rules)}"
    )
    (tmp_path / "shop.evalset.json").write_text(json.dumps(build_set()))
    (tmp_path / "recorded.evalset.json").write_text(json.dumps(build_set()))
    return tmp_path


def run(project: Path, *words: str, code: int = 0, command: str = "run") -> dict[str, Any]:
    """Run a command of evalgate in the project and return the results."""
    assert main([command, *words, "-C", str(project)]) == code
    results = project / "evalgate-report/results.json"
    return dict(json.loads(results.read_text())) if results.exists() else {}


def list_ids(record: dict[str, Any]) -> list[str]:
    return [case["eval_id"] for case in record["cases"]]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--tag smoke", ["refund_fr", "greets"]),
        ("--tag smoke --tag slow", ["refund_fr", "greets", "history"]),
        ("--tag !slow --tag !smoke", ["refund_late", "refund_early"]),
        ("-k REFUND", ["refund_late", "refund_early", "refund_fr"]),
        ("-k 'refund and not (late or fr)'", ["refund_early"]),
        ("-k 'shop and slow'", ["history"]),
        ("--tag smoke -k refund", ["refund_fr"]),
    ],
)
def test_selected_cases_are_run(project: Path, words: str, expected: list[str]) -> None:
    record = run(project, *shlex.split(words))

    assert list_ids(record) == expected
    assert record["verdict"]["status"] == "pass"
    assert record["verdict"]["reasons"][0].endswith(f"; {5 - len(expected)} not selected.")
    options = shlex.split(words)
    assert record["selection"] == {"options": options, "cases": len(expected), "of": 5}
    assert any(shlex.join(options) in notice for notice in record["notices"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--tag refund", "--tag refund: no case has this tag. Did you mean `refunds`?"),
        ("--tag slow -k greets", "no case is selected by --tag slow -k greets"),
        ("-k 'late and'", "-k 'late and': at column 9: expected a name"),
        ("--failed", "no such file"),
        ("--failed --resume", "--failed cannot resume"),
        ("--sample 2 --shard 1/2", "--sample cannot be combined with --shard"),
        ("--failed --shard 1/2", "--failed cannot be combined with --shard"),
        ("--seed 1", "--seed needs --sample"),
    ],
)
def test_wrong_options_run_nothing(
    project: Path, words: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(project, *shlex.split(words), code=2) == {}
    assert message in capsys.readouterr().err


def test_failed_cases_are_run_until_they_pass(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded = project / "recorded.evalset.json"
    recorded.write_text(json.dumps(build_set(wrong=("greets", "history"))))
    run(project, code=1)
    recorded.write_text(json.dumps(build_set(wrong=("history",))))

    assert list_ids(run(project, "--failed", code=1)) == ["greets", "history"]
    assert list_ids(run(project, "--failed", code=1)) == ["history"]
    results = project / "evalgate-report/results.json"
    results.rename(results.with_name("results.json.previous"))  # as a run leaves it that is killed
    recorded.write_text(json.dumps(build_set()))
    assert list_ids(run(project, "--failed")) == ["history"]
    run(project, "--failed", code=2)
    assert "1 case passed in evalgate-report/results.json and none failed" in capsys.readouterr().err


def test_failed_cases_that_are_gone_are_named(project: Path) -> None:
    recorded = project / "recorded.evalset.json"
    recorded.write_text(json.dumps(build_set(wrong=("greets", "history"))))
    run(project, code=1)
    for name in ("shop.evalset.json", "recorded.evalset.json", "evalgate.yaml"):
        (project / name).write_text((project / name).read_text().replace("greets", "welcomes"))

    notices = run(project, "--failed", code=1)["notices"]
    assert [each for each in notices if "in the last run" in each] == [
        "1 case that failed in the last run is in no eval set of this one, so nothing tells whether it passes now: greets."
    ]


def test_a_sample_has_no_verdict(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "recorded.evalset.json").write_text(json.dumps(build_set(wrong=tuple(TAGS))))

    for words in (("--sample", "2", "--seed", "1"), ("--sample", "2", "--seed", "1", "--report-only")):
        record = run(project, *words, code=3)
        assert record["selection"]["is_sample"] is True
        assert len(record["cases"]) == 2
        first, *others = record["verdict"]["reasons"]
        assert first == "This is a sample of 2 of 5 cases, which has no verdict."
        assert any("2 of 2 cases" in reason for reason in others)
    assert "NO VERDICT" in capsys.readouterr().out


def test_a_selection_is_compared_and_not_stored(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(project)
    assert main(["baseline", "save", "-C", str(project)]) == 0
    record = run(project, "--tag", "smoke")

    assert record["comparison"]["changes"] == []
    assert record["comparison"]["left_out"] == 3
    for words in (["save"], ["accept", "--reason", "x"]):
        assert main(["baseline", *words, "-C", str(project)]) == 2
        assert "limited to 2 of 5 cases (--tag smoke)" in capsys.readouterr().err
    results = project / "evalgate-report/results.json"
    assert main(["compare", ".evalgate/baseline.json", str(results), "-C", str(project)]) == 0
    assert "removed" not in capsys.readouterr().out


def test_results_of_named_cases_are_no_baseline(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(project, "--runs", "1")
    assert main(["baseline", "save", "-C", str(project)]) == 0
    record = run(project, "recorded.evalset.json:refund_late", "--runs", "1")
    capsys.readouterr()
    assert record["partial_sets"] == [record["cases"][0]["eval_set_id"]]
    for words in (["save"], ["accept", "--reason", "x"]):
        assert main(["baseline", *words, "-C", str(project)]) == 2
        assert "displace runs of the others. Run the whole eval set" in capsys.readouterr().err
    results = project / "evalgate-report/results.json"
    main(["compare", ".evalgate/baseline.json", str(results), "-C", str(project)])
    assert "1 unchanged, 4 not part of this run" in capsys.readouterr().out


def test_shards_of_a_selection_are_merged(project: Path) -> None:
    for number in ("1", "2"):
        run(project, "--runs", "1", "-k", "refund", "--shard", f"{number}/2", "--out", f"part{number}")
    parts = ("part1", "part2", "--runs", "1")

    assert list_ids(run(project, *parts, "-k", "refund", command="merge")) == [
        "refund_late",
        "refund_early",
        "refund_fr",
    ]
    run(project, *parts, code=2, command="merge")


def test_the_page_shows_commands_that_run(project: Path) -> None:
    (project / "recorded.evalset.json").write_text(json.dumps(build_set(wrong=("greets",))))
    blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    commands = [shlex.split(line) for block in blocks for line in block.splitlines()]
    codes = {"--failed": 1, "--sample": 3}

    for command in commands:
        if "--failed" in command:
            run(project, code=1)
        wanted = next((code for word, code in codes.items() if word in command), None)
        code = main([*command[1:], "-C", str(project)])
        assert code == wanted if wanted is not None else code in {0, 1}, command
    assert len(commands) == 5


# --- drawing ------------------------------------------------------------------------------------------------


def build_candidates(**strata: int) -> list[Candidate]:
    return [Candidate(("set", f"{tag}_{at}"), (tag,)) for tag, size in strata.items() for at in range(size)]


def count_tags(drawn: Sequence[Candidate]) -> Counter[str]:
    return Counter(case.tags[0] for case in drawn)


def test_each_stratum_gets_its_share() -> None:
    cases = build_candidates(common=60, rare=30, odd=10)

    drawn = draw_sample(cases, 10, seed=0)
    assert count_tags(drawn) == {"common": 6, "rare": 3, "odd": 1}
    assert [*drawn] == [case for case in cases if case in drawn]
    assert [*draw_sample(cases, 10, seed=0)] == [*drawn]
    assert [*draw_sample(cases, 10, seed=1)] != [*drawn]
    assert [*draw_sample(cases, 1000, seed=0)] == cases
    assert allocate_sample([1, 1, 1], 2) == [1, 1, 0]


def test_a_new_case_changes_little() -> None:
    before = {case.key for case in draw_sample(build_candidates(a=50), 10, seed=0)}
    after = {case.key for case in draw_sample(build_candidates(a=51), 10, seed=0)}

    assert len(before & after) >= 9


def test_every_case_is_drawn_about_equally_often() -> None:
    cases = build_candidates(a=20)
    times = Counter(case.key for seed in range(500) for case in draw_sample(cases, 5, seed))

    assert len(times) == 20
    # 125 times each on average; five standard deviations of a binomial count are 48.
    assert max(times.values()) <= 125 + 48
    assert min(times.values()) >= 125 - 48
