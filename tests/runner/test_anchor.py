"""`gate.anchor` from the thresholds file to the reports, in a repository with a release."""

import json
import subprocess
from pathlib import Path

import jsonschema

from tests.commands import Done, evalgate

SCHEMA = Path(__file__).parents[2] / "docs" / "results.schema.json"
WORDS = [
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
]
AGENT = """
def answer(text):
    return " ".join({words}[{skipped}:])
"""
PULL_REQUEST = {"GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": "pull_request", "GITHUB_BASE_REF": "main"}


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.com", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *who, *arguments], cwd=folder, capture_output=True, check=True)


def commit_agent(folder: Path, skipped: int) -> None:
    """Commit an agent whose answers lack so many of 25 words."""
    words = WORDS + [f"{word}s" for word in WORDS[:10]]
    agent = AGENT.format(words=words, skipped=skipped)
    # Of another length each time: Python takes a file of the same second and length for unchanged.
    (folder / "agent.py").write_text(agent + "#" * skipped)
    git(folder, "add", ".")
    git(folder, "commit", "-q", "--allow-empty", "-m", f"Skip {skipped}")


def run(folder: Path, **environ: str) -> Done:
    return evalgate("run", "--runs", "3", "--html", cwd=folder, **environ)


def test_small_accepted_steps_close_the_gate_together(tmp_path: Path) -> None:
    words = " ".join(WORDS + [f"{word}s" for word in WORDS[:10]])
    cases = [
        {
            "eval_id": f"case{at}",
            "conversation": [
                {
                    "user_content": {"parts": [{"text": f"{at}"}]},
                    "final_response": {"parts": [{"text": words}]},
                }
            ],
        }
        for at in range(8)
    ]
    (tmp_path / "a.evalset.json").write_text(json.dumps({"eval_set_id": "a", "eval_cases": cases}))
    rules = {
        "agent": {"kind": "python", "entry": "agent:answer"},
        "eval_sets": ["a.evalset.json"],
        "criteria": {"response_match_score": 0.5},
        "gate": {"baseline": "baseline.json", "anchor": "baseline.json@v1"},
    }
    (tmp_path / "evalgate.json").write_text(json.dumps(rules))
    (tmp_path / ".gitignore").write_text("evalgate-report\n.evalgate\n__pycache__\n")
    git(tmp_path, "init", "-q")

    commit_agent(tmp_path, 0)
    missing = run(tmp_path)
    assert missing.code == 2
    assert "gate.anchor: baseline.json@v1" in missing.err
    rules["gate"] = {"baseline": "baseline.json"}
    (tmp_path / "evalgate.json").write_text(json.dumps(rules))
    assert run(tmp_path).code == 0
    assert evalgate("baseline", "save", cwd=tmp_path).code == 0
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "Baseline")
    git(tmp_path, "tag", "v1")
    rules["gate"] = {"baseline": "baseline.json", "anchor": "baseline.json@v1"}
    (tmp_path / "evalgate.json").write_text(json.dumps(rules))

    for skipped, code in ((2, 0), (3, 1)):  # F1 0.96 and 0.94: each step is smaller than 0.05
        commit_agent(tmp_path, skipped)
        done = run(tmp_path)
        assert done.code == code, done.out + done.err
        evalgate("baseline", "accept", "--reason", "smaller answers", cwd=tmp_path)
        git(tmp_path, "commit", "-q", "-am", "Accept")
    sentence = "response_match_score fell by 0.06 since v1 (0 days, 4 commits): 1.00 → 0.94"
    assert done.record["verdict"]["reasons"][0].startswith(sentence)
    report = tmp_path / "evalgate-report"
    for text in (
        done.out + done.err,
        (report / "comment.md").read_text(),
        (report / "junit.xml").read_text(),
        (report / "report.html").read_text(),
    ):
        assert "fell by 0.06 since v1" in text
    jsonschema.validate(done.record, json.loads(SCHEMA.read_text()))

    git(tmp_path, "update-ref", "refs/remotes/origin/main", "HEAD")
    git(tmp_path, "checkout", "-q", "-b", "feature")
    # The change has no say in its anchor.
    (tmp_path / "evalgate.json").write_text(json.dumps(rules | {"gate": {"baseline": "baseline.json"}}))
    commit_agent(tmp_path, 3)
    harmless = run(tmp_path, **PULL_REQUEST)
    assert harmless.code == 0, harmless.out
    assert "the gate of a pull request stays open" in (report / "comment.md").read_text()
    assert [each["outcome"] for each in harmless.record["anchor"]["metrics"]] == ["fell_before"]
    commit_agent(tmp_path, 4)
    worse = run(tmp_path, **PULL_REQUEST)
    assert worse.code == 1, worse.out
    assert worse.record["verdict"]["reasons"][0].endswith("This change took it down by 0.02 against main.")

    compared = evalgate("compare", "baseline.json", "evalgate-report/results.json", cwd=tmp_path)
    assert "since v1" not in compared.out
