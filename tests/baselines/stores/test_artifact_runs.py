"""A baseline in an artifact, end to end: saved, uploaded, read by the next run, named in its reports."""

import json
from pathlib import Path

from tests.baselines.stores.test_artifact import environ_of, keep, zipped
from tests.ci.test_github_pull_request import AGENT, EVAL_SET, THRESHOLDS
from tests.commands import evalgate
from tests.github.server import FakeGitHub
from tests.github.world import Run


def test_reports_name_the_run_that_kept_the_baseline(github: FakeGitHub, tmp_path: Path) -> None:
    environ = environ_of(github)
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "a.evalset.json").write_text(json.dumps(EVAL_SET))
    config = {**THRESHOLDS, "criteria": {"response_match_score": 0.0}}
    config["gate"] = {"baseline": "artifact:evalgate-baseline"}
    (tmp_path / "evalgate.json").write_text(json.dumps(config))

    github.world.runs.append(Run(41))
    first = evalgate("run", cwd=tmp_path, **environ)
    assert first.code == 0, first.err
    none = (
        "There is no baseline at artifact:evalgate-baseline yet: no good run of evalgate.yml on main kept it."
    )
    assert none in first.out

    push = {"GITHUB_REF_TYPE": "branch", "GITHUB_REF_NAME": "main", "GITHUB_SHA": "5f" * 20}
    saved = evalgate("baseline", "save", cwd=tmp_path, **environ, **push)
    assert saved.out == (
        "Baseline of 1 case saved to artifact:evalgate-baseline. "
        "Upload the folder evalgate-baseline as the artifact `evalgate-baseline`.\n"
    ), saved.err
    kept = tmp_path / "evalgate-baseline/baseline.json"
    keep(github, Run(42), zipped(("baseline.json", kept.read_bytes())))
    kept.unlink()

    second = evalgate("run", cwd=tmp_path, **environ)
    assert second.code == 0, second.err
    report = tmp_path / "evalgate-report"
    comparison = json.loads((report / "results.json").read_bytes())["comparison"]
    assert (comparison["source"], comparison["version"]) == (
        "artifact:evalgate-baseline:baseline.json",
        "run 42",
    )
    assert (comparison["commit"], comparison["branch"]) == ("5f" * 20, "main")
    assert (
        "since the baseline `artifact:evalgate-baseline:baseline.json` (run 42) from `main` at `5f5f5f5f5f5f` of "
    ) in (report / "comment.md").read_text("utf-8")
    assert (
        "Compared with artifact:evalgate-baseline:baseline.json, run 42, main, 5f5f5f5f5f5f, " in second.out
    )
