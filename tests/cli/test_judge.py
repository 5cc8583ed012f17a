"""`evalgate judge`: answers are drawn from a judged run, labelled by people, and compared."""

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from evalgate.cli.judge_labelling import add_labels
from evalgate.core.errors import InvalidInputError
from evalgate.datasets.judge_labels import (
    STORE_NAME,
    LabelStore,
    read_label_file,
    read_store,
    write_label_file,
    write_store,
)
from evalgate.datasets.judged_answers import JudgedAnswer
from tests.commands import Done, evalgate
from tests.openai_server import Body, Completion, OpenAIServer, Reply

KEY = "sk-planted-0123456789-never-to-be-seen"
AGENT = "def answer(text):\n    return f'We sell {text}.\\nAnything else?'\n"
METRIC = "final_response_match_v2"
CRITERIA = {METRIC: {"threshold": 0.5, "judge_model_options": {"num_samples": 1}}, "response_match_score": 0}
CASES = 24


def judging(body: Body) -> Reply:
    """Finds every third question's answer wrong."""
    number = int(re.findall(r"some thing (\d+)", body["messages"][-1]["content"])[0])
    label = "invalid" if number % 3 == 0 else "valid"
    return Completion(json.dumps({"reasoning": "secret reason", "is_the_agent_response_valid": label}))


def run_project(
    folder: Path,
    floor: object,
    code: int = 1,
    model: str = "m-1",
    *,
    runs: int = 1,
    script: Callable[[Body], Reply] = judging,
    agent: str = AGENT,
    criteria: Mapping[str, object] = CRITERIA,
    options: Sequence[str] = (),
) -> Done:
    """Run the agent, judged by a model."""
    cases = [
        {
            "eval_id": f"case{number}",
            "conversation": [
                {
                    "user_content": {"parts": [{"text": f"thing {number}"}]},
                    "final_response": {"parts": [{"text": f"some thing {number}"}]},
                }
            ],
        }
        for number in range(CASES)
    ]
    (folder / "agent.py").write_text(agent)
    (folder / "s.evalset.json").write_text(json.dumps({"eval_set_id": "s", "eval_cases": cases}))
    with OpenAIServer(script=script, key=KEY) as server:
        judge = {"provider": "custom", "model": model, "base_url": server.url, "api_key": "${MY_KEY}"}
        config = {
            "version": 1,
            "eval_sets": ["s.evalset.json"],
            "agent": {"entry": "agent.py:answer"},
            "criteria": criteria,
            "judge": {**judge, "floor": floor},
        }
        (folder / "evalgate.json").write_text(json.dumps(config))
        done = call(folder, "run", "--runs", str(runs), *options)
        assert done.code == code, done.out + done.err
        return done


def call(folder: Path, *words: str) -> Done:
    return evalgate(*words, cwd=folder, MY_KEY=KEY)


def fill(folder: Path, name: str, wrong: int = 0) -> None:
    """Label as the judge does, except for the first `wrong` answers that the judge fails."""
    path = folder / "labels.yaml"
    lines = []
    for line in path.read_text("utf-8").splitlines():
        if found := re.match(r"  question: thing (\d+)$", line):
            number = int(found[1])
        if line == "  label:":
            is_failed = number % 3 == 0
            disagrees = is_failed and wrong > 0
            wrong -= disagrees
            lines.append("  label: pass" if disagrees or not is_failed else "  label: Fail")
        else:
            lines.append(line)
    (folder / name).write_text("\n".join(lines) + "\n", "utf-8")


def test_people_label_a_blind_sample_and_the_judge_is_compared(tmp_path: Path) -> None:
    run_project(tmp_path, {"tnr": 0.2, "kappa": 0.95})
    drawn = call(tmp_path, "judge", "sample", "-n", "12")
    text = (tmp_path / "labels.yaml").read_text("utf-8")
    unlabelled = call(tmp_path, "judge", "check")
    fill(tmp_path, "anna.yaml")
    fill(tmp_path, "ben.yaml", wrong=2)
    added = call(tmp_path, "judge", "add", "anna.yaml", "--by", "anna")
    call(tmp_path, "judge", "add", "ben.yaml", "--by", "ben")
    check = call(tmp_path, "judge", "check")
    as_json = call(tmp_path, "judge", "check", "--json")

    assert drawn.code == 0, drawn.err
    assert "labels.yaml: 12 answers of 24 to label." in drawn.out
    rows = yaml.safe_load(text)["answers"]
    assert [list(row) for row in rows] == [
        ["id", "metric", "case", "question", "expected", "answer", "label"]
    ] * 12
    assert sum(int(row["question"].removeprefix("thing ")) % 3 == 0 for row in rows) == 6, "half are failed"
    assert rows[0]["answer"] == f"We sell {rows[0]['question']}.\nAnything else?"
    assert "secret reason" not in text
    assert unlabelled.code == 4
    assert "TNR 0.2: not enough labels\n" in unlabelled.out
    assert "judge-labels.json: 12 labels of anna." in added.out
    assert check.code == 4, check.err
    assert f"{METRIC}: 10 of 24 judged answers labelled\n" in check.out
    assert "2 answers left out: as many people pass as fail" in check.out
    assert "agreement  1.00 (" in check.out
    assert "pass rate  0.67 says the judge, 0.67 (" in check.out
    assert "TNR 0.2: met" in check.out
    assert re.search(r"kappa 0\.95: not enough labels: [\d,]+ more would decide", check.out)
    assert "anna and ben agree on 10 of 12 answers (kappa 0.67)" in check.out
    figures = json.loads(as_json.out)
    (found,) = figures["judges"]
    assert (as_json.code, figures["exit_code"]) == (4, 4)
    assert [found[name] for name in ("metric", "answers", "labels", "undecided")] == [METRIC, 24, 10, 2]
    assert found["judge_pass_rate"] == pytest.approx(2 / 3)
    assert found["agreement"]["value"] == 1.0
    assert 0 < found["agreement"]["low"] < found["agreement"]["high"] <= 1
    assert found["floors"]["tnr"] == {"floor": 0.2, "answer": "met", "further_labels": None}
    assert found["floors"]["kappa"]["answer"] == "undecided"
    (people,) = figures["people"]
    assert (people["answers"], people["agreed"], round(people["kappa"], 2)) == (12, 10, 0.67)


def test_a_judge_that_misses_its_floor_closes(tmp_path: Path) -> None:
    run_project(tmp_path, {"kappa": 0.9})
    call(tmp_path, "judge", "sample", "-n", "24")
    run_project(tmp_path, {"kappa": 0.9}, 0, options=("--shard", "1/1", "--out", "part"))
    fill(tmp_path, "labels2.yaml", wrong=7)
    call(tmp_path, "judge", "add", "labels2.yaml", "--by", "anna")
    merged = call(tmp_path, "merge", "part", "--runs", "1")
    check = call(tmp_path, "judge", "check")
    again = call(tmp_path, "judge", "sample", "-o", "more.yaml")
    twice = call(tmp_path, "judge", "sample")
    stopped = run_project(tmp_path, {"kappa": 0.9}, code=3)
    undecided = run_project(tmp_path, {"kappa": 0.9, "tpr": 0.1}, model="m-2")

    assert check.code == 1, check.out + check.err
    assert "floor      kappa 0.9: missed" in check.out
    assert again.code == 2
    assert "all 24 judged answers were drawn before" in again.err
    assert twice.code == 2
    assert not (tmp_path / "more.yaml").exists()
    assert f"The judge of {METRIC} is unreliable: kappa 0." in stopped.out
    assert ", below 0.9 (24 labels). No case was run." in stopped.out
    assert merged.code == 3
    assert ", below 0.9 (24 labels)." in merged.out
    assert "No case was run" not in merged.out, "the shard was run before the labels were there"
    assert (
        f"It is not known whether the judge of {METRIC} holds `judge.floor`: no answers of this judge"
        in " ".join(undecided.record["notices"])
    ), "another judge's labels tell nothing"


def test_labels_that_people_add_at_the_same_time_are_all_stored(tmp_path: Path) -> None:
    answers = [JudgedAnswer(f"id{at}", METRIC, "f", "s:c", "q", "a", "", (), True, 1.0) for at in range(2)]
    store = LabelStore().add_sample(answers, answers, "2026-11-01T00:00:00+00:00")
    write_store(store, tmp_path / STORE_NAME, STORE_NAME)
    write_label_file(answers, tmp_path / "labels.yaml", "labels.yaml")
    text = (tmp_path / "labels.yaml").read_text("utf-8")
    (tmp_path / "labels.yaml").write_text(text.replace("  label:\n", "  label: pass\n"), "utf-8")
    people = [f"person {number}" for number in range(8)]
    with ThreadPoolExecutor(len(people)) as pool:
        list(pool.map(lambda name: list(add_labels("labels.yaml", name, tmp_path, None)), people))
    stored = read_store(tmp_path / STORE_NAME, STORE_NAME).answers["id0"].labels
    assert sorted(label.by for label in stored) == people
    with pytest.raises(InvalidInputError, match="nowhere"):
        list(add_labels("labels.yaml", "anna", tmp_path / "nowhere", None))


def test_wrong_labels_are_reported_with_their_lines(tmp_path: Path) -> None:
    run_project(tmp_path, 0.9)
    call(tmp_path, "judge", "sample", "-n", "4")
    path = tmp_path / "labels.yaml"
    empty = call(tmp_path, "judge", "add", "labels.yaml", "--by", "anna")
    lines = path.read_text("utf-8").splitlines()
    at = [number for number, line in enumerate(lines) if line == "  label:"]
    lines[at[0]] += " fial"
    lines[at[1]] += " yes"
    first = next(number for number, line in enumerate(lines) if number > at[2] and line.startswith("- id:"))
    lines[first] = "- id: unknown"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    before = (tmp_path / "judge-labels.json").read_text("utf-8")
    added = call(tmp_path, "judge", "add", "labels.yaml", "--by", "anna")

    assert empty.code == 2
    assert "no label is filled in" in empty.err
    assert added.code == 2
    assert f"labels.yaml:{at[0] + 1}:3: `label` must be pass or fail, or empty, not 'fial'." in added.err
    assert "Did you mean 'fail'?" in added.err or "did you mean" in added.err.lower()
    assert f"labels.yaml:{first + 1}:" in added.err
    assert "'unknown' is no answer that `evalgate judge sample` drew." in added.err
    assert f":{at[1] + 1}:" not in added.err, "YAML reads yes as true"
    assert (tmp_path / "judge-labels.json").read_text("utf-8") == before


@pytest.mark.parametrize(
    "text", ["\n", "Yes.\n\n", "Yes.\n", "[\n\n\n", "a\n\nb", "---\n...\n\n", "...", " \n "]
)
def test_a_sample_can_be_read_whatever_its_answers_end_with(tmp_path: Path, text: str) -> None:
    answers = [JudgedAnswer(f"id{at}", METRIC, "f", "s:c", text, text, "", (), True, 1.0) for at in range(2)]
    path = tmp_path / "labels.yaml"
    write_label_file(answers, path, path.name)
    assert read_label_file(path, path.name, ["id0", "id1"]) == ([], 2)
    path.write_text(path.read_text("utf-8").replace("  label:\n", "  label: pass\n"), "utf-8")
    filled, _ = read_label_file(path, path.name, ["id0", "id1"])
    assert [each.label for each in filled] == ["pass", "pass"]
    assert {each["answer"] for each in yaml.safe_load(path.read_text("utf-8"))["answers"]} == {text}


def test_a_judge_that_causes_most_of_the_variance_is_named_in_reports(tmp_path: Path) -> None:
    rng, asked = random.Random(5), Counter[str]()

    def guess(body: Body) -> Reply:
        prompt = body["messages"][-1]["content"]
        asked[prompt] += 1
        labels = {1: "valid", 2: "invalid", 3: "valid"}
        label = labels.get(asked[prompt]) or rng.choice(("valid", "invalid"))
        return Completion(json.dumps({"reasoning": "", "is_the_agent_response_valid": label}))

    # Each answer is another text, so none is judged from the cache.
    agent = "import uuid\ndef answer(text):\n    return f'We sell {text}: {uuid.uuid4()}'\n"
    criteria = {METRIC: {"threshold": 0.0, "judge_model_options": {"num_samples": 4}}}
    done = run_project(tmp_path, 0.0, 0, runs=2, script=guess, agent=agent, criteria=criteria)

    (notice,) = (each for each in done.record["notices"] if "it scores the same answer differently" in each)
    assert notice.startswith(f"{METRIC}: the judge causes ")
    assert "(8 instead of 4)" in notice
    assert notice.split(":")[1][:30] in (tmp_path / "evalgate-report/comment.md").read_text("utf-8")
