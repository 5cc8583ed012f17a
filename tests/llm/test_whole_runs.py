"""Judged metrics end to end: the command, an agent, and a model behind OpenAI's wire format."""

import json
import os
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import pytest

from tests import commands
from tests.commands import Done
from tests.openai_server import Body, Completion, ErrorReply, NoReply, OpenAIServer, Reply

KEY = "sk-planted-0123456789-never-to-be-seen"
AGENT = "def answer(text):\n    return text.upper()\n"
TEXTS = ("tea", "cake", "milk")


def project(folder: Path, url: str, metrics: object, **more: object) -> Path:
    cases = [
        {
            "eval_id": text,
            "conversation": [
                {
                    "user_content": {"parts": [{"text": text}]},
                    "final_response": {"parts": [{"text": f"some {text}"}]},
                }
            ],
        }
        for text in TEXTS
    ]
    (folder / "agent.py").write_text(AGENT)
    (folder / "s.evalset.json").write_text(json.dumps({"eval_set_id": "s", "eval_cases": cases}))
    judge = {"provider": "custom", "model": "m-1", "base_url": url, "api_key": "${MY_KEY}", "retries": 0}
    config = {
        "version": 1,
        "eval_sets": ["s.evalset.json"],
        "agent": {"entry": "agent.py:answer"},
        "criteria": metrics,
        "judge": judge,
        **more,
    }
    (folder / "evalgate.json").write_text(json.dumps(config, indent=1))
    return folder


def evalgate(folder: Path, *words: str, **environ: str) -> Done:
    return commands.evalgate(*words, cwd=folder, **{"MY_KEY": KEY, **environ})


def files_in(folder: Path) -> str:
    return "\n".join(
        path.read_bytes().decode(errors="replace") for path in folder.rglob("*") if path.is_file()
    )


SAMPLES = {"judge_model_options": {"num_samples": 3}}
MATCH = {"final_response_match_v2": {"threshold": 0.5, **SAMPLES}}


def judging(body: Body) -> Reply:
    """Finds cake wrong, and gives the key back."""
    text = body["messages"][-1]["content"]
    label = "invalid" if "CAKE" in text else "valid"
    return Completion(f'{{"reasoning": "I know {KEY}", "is_the_agent_response_valid": "{label}"}}')


def test_a_run_is_judged_its_answers_kept_and_no_key_seen(tmp_path: Path) -> None:
    with OpenAIServer(script=judging, key=KEY) as server:
        prices = {"custom/m-1": {"input": 1_000, "output": 2_000}}
        project(tmp_path, server.url, MATCH, prices=prices)
        first = evalgate(tmp_path, "run")
        asked = len(server.requests)
        record = first.record
        again = evalgate(tmp_path, "run")

    assert first.code == 1, first.err
    assert asked == len(server.requests) == 9
    assert [case["status"] for case in record["cases"]] == ["passed", "failed", "passed"]
    assert record["judge"]["calls"] == 9
    assert record["judge"]["input_tokens"] == 99
    assert record["judge"]["cost_usd"] == pytest.approx(9 * (11 * 1e-3 + 7 * 2e-3))
    assert "9 judge calls (162 tokens, $0.22), 0 spared by the cache" in first.out
    assert "final_response_match_v2: the judge agrees with itself 1.00" in first.out
    assert record["metrics"][0]["agreement"] == 1.0
    beside = "| `final_response_match_v2`<br><sub>the judge agrees with itself 1.00</sub> |"
    assert beside in (tmp_path / "evalgate-report/comment.md").read_text("utf-8")
    assert again.record["judge"]["spared"] == 9
    assert "0 judge calls, 9 spared by the cache" in again.out
    details = record["cases"][1]["runs"][0]["turns"][0]["metrics"][0]["details"]
    assert [sample["reason"] for sample in details["samples"]] == ["I know [key]"] * 3
    assert KEY not in first.out + first.err + again.out + again.err + files_in(tmp_path)


def quoting(body: Body) -> Reply:
    """Repeats all that it was shown, of which cake is harmless."""
    text = body["messages"][-1]["content"]
    label = {"reasoning": "fine" if "CAKE" in text else text, "is_the_agent_response_valid": "valid"}
    return Completion(json.dumps(label))


def test_the_cache_holds_no_secret_that_a_judge_repeats(tmp_path: Path) -> None:
    well_known, ours = "ghp_" + "a1B2c3D4e5F6" * 3, "blue-monkey-4711-tango"
    with OpenAIServer(script=quoting, key=KEY) as server:
        project(tmp_path, server.url, MATCH)
        (tmp_path / "agent.py").write_text(
            f"def answer(text):\n    return text.upper() + ({text_of(well_known, ours)!r} if text != 'cake' else '')\n"
        )
        done = evalgate(tmp_path, "run", A_TOKEN=ours)
        again = evalgate(tmp_path, "run", A_TOKEN=ours)

    assert done.code == again.code == 0, done.err
    assert "6 answers of models held a secret" in done.out
    assert "6 judge calls" in again.out
    assert "3 spared by the cache" in again.out
    kept = (tmp_path / ".evalgate/judge-cache.sqlite").read_bytes().decode(errors="replace")
    assert "fine" in kept
    assert [secret for secret in (well_known, ours, KEY) if secret in kept] == []


def text_of(*secrets: str) -> str:
    return " I know " + " and ".join(secrets)


def test_another_judge_is_not_compared_and_that_is_why(tmp_path: Path) -> None:
    with OpenAIServer(script=judging, key=KEY) as server:
        project(tmp_path, server.url, MATCH, gate={"baseline": "b.json", "max_failed_cases": 1})
        evalgate(tmp_path, "run", "--judge-cache", "off")
        saved = evalgate(tmp_path, "baseline", "save", "--allow-failing", "--to", "b.json")
        unchanged = evalgate(tmp_path, "run", "--judge-cache", "off").record
        other = evalgate(tmp_path, "run", "--judge", "custom/m-2", "--judge-cache", "off")

    assert saved.code == 0, saved.err
    assert "the judge" not in "".join(unchanged["notices"])
    assert (
        "final_response_match_v2 is not comparable: the judge, or what it is asked, changed since the baseline."
        in other.record["notices"]
    )
    assert not (tmp_path / ".evalgate/judge-cache.sqlite").exists()


def test_the_cache_stays_off_for_a_model_that_a_metric_names(tmp_path: Path) -> None:
    answers = iter(
        [Completion(f"reasoning: r\nis_the_agent_response_valid: {each}") for each in ("valid", "invalid")]
    )
    with OpenAIServer(script=lambda _: next(answers), key=KEY) as server:
        model = {"providerName": "x", "modelName": "m", "baseURL": server.url, "apiKey": "${MY_KEY}"}
        metric = {
            "metricName": "llm_final_response",
            "threshold": 1,
            "criterion": {"llmJudge": {"judgeModel": model}},
        }
        said = {"role": "user", "content": "tea"}, {"role": "assistant", "content": "TEA"}
        turn = dict(zip(("userContent", "finalResponse"), said, strict=True))
        case = {"evalId": "c", "sessionInput": {}, "conversation": [turn]}
        (tmp_path / "agent.py").write_text(AGENT)
        (tmp_path / "s.evalset.json").write_text(json.dumps({"evalSetId": "s", "evalCases": [case]}))
        (tmp_path / "s.metrics.json").write_text(json.dumps([metric]))
        run = ("run", "s.evalset.json", "--agent", "python:agent.py:answer", "--judge-cache")

        codes = [evalgate(tmp_path, *run, mode).code for mode in ("read-write", "read", "off")]

    assert codes == [0, 0, 1], "only the last run asked the judge again"


def test_a_judge_that_is_down_is_no_score_and_no_regression(tmp_path: Path) -> None:
    with OpenAIServer(script=lambda _: ErrorReply(503, "gone")) as server:
        project(tmp_path, server.url, {**MATCH, "response_match_score": 0.1})
        done = evalgate(tmp_path, "run")

    assert done.code == 3
    metrics = done.record["cases"][0]["runs"][0]["metrics"]
    judged = next(metric for metric in metrics if metric["name"] == "final_response_match_v2")
    assert (judged["score"], judged["status"], judged["failure"]) == (None, "errored", "outage")
    assert "Run again later" in judged["reason"]
    assert "A metric broke in 3 of 3 cases" in done.out


def test_a_spent_budget_is_an_honest_part(tmp_path: Path) -> None:
    with OpenAIServer(script=judging, key=KEY) as server:
        agent = {"entry": "agent.py:answer", "concurrency": 1}
        project(tmp_path, server.url, MATCH, budget={"tokens": 40}, agent=agent)
        done = evalgate(tmp_path, "run")

    assert done.code == 3
    assert len(server.requests) == 3
    assert done.record["verdict"]["reasons"][0] == (
        "The budget of 40 tokens is spent; not, or not fully, evaluated: 2 of 3 cases (cake, milk). "
        "Raise `budget` and go on with --resume, or run fewer cases."
    )
    assert [case["status"] for case in done.record["cases"]] == ["passed", "not_evaluated", "not_evaluated"]
    assert "The agent did not report the usage of 1 run; the budget does not count it." in done.out


def test_what_was_judged_before_is_counted_when_a_run_goes_on(tmp_path: Path) -> None:
    agent = {"entry": "agent.py:answer", "concurrency": 1}
    off = ("--judge-cache", "off")
    with OpenAIServer(script=judging, key=KEY) as server:
        project(tmp_path, server.url, MATCH, budget={"tokens": 40}, agent=agent)
        codes = [evalgate(tmp_path, "run", *off).code]
        asked = [len(server.requests)]
        for budget in ({"tokens": 60}, {"tokens": 60}, {"tokens": 1000}):
            set_budget(tmp_path, budget)
            done = evalgate(tmp_path, "run", "--resume", *off)
            codes.append(done.code)
            asked.append(len(server.requests))

    assert codes == [3, 3, 3, 1], done.err
    assert asked == [3, 6, 6, 9], "the third run found the budget spent"
    judge = done.record["judge"]
    assert (judge["calls"], judge["input_tokens"], judge["output_tokens"]) == (9, 99, 63)
    assert [run["judge"]["calls"] for case in done.record["cases"] for run in case["runs"]] == [3, 3, 3]
    assert not (tmp_path / "evalgate-report/journal.jsonl").exists()


ONE_BY_ONE = {"agent": {"entry": "agent.py:answer", "concurrency": 1}}
"""A case after the other, and with this judge a question after the other."""


def ask_one_by_one(folder: Path) -> None:
    config = json.loads((folder / "evalgate.json").read_text())
    config["judge"]["concurrency"] = 1
    (folder / "evalgate.json").write_text(json.dumps(config))


def test_calls_for_a_case_that_the_budget_ended_are_counted_when_it_is_played_again(tmp_path: Path) -> None:
    with OpenAIServer(script=judging, key=KEY) as server:
        project(tmp_path, server.url, MATCH, budget={"tokens": 20}, **ONE_BY_ONE)
        ask_one_by_one(tmp_path)
        spent = evalgate(tmp_path, "run", "--judge-cache", "off")
        assert (spent.code, len(server.requests)) == (3, 2), spent.err
        set_budget(tmp_path, {"tokens": 200})
        done = evalgate(tmp_path, "run", "--resume", "--judge-cache", "off")

    assert (done.code, len(server.requests)) == (1, 2 + 9), done.err
    judge = done.record["judge"]
    assert (judge["calls"], judge["input_tokens"], judge["output_tokens"]) == (11, 121, 77)


def test_what_was_spent_on_a_case_that_came_to_nothing_counts_against_the_budget(tmp_path: Path) -> None:
    with OpenAIServer(script=judging, key=KEY) as server:
        project(tmp_path, server.url, MATCH, budget={"tokens": 20}, **ONE_BY_ONE)
        ask_one_by_one(tmp_path)
        assert evalgate(tmp_path, "run", "--judge-cache", "off").code == 3
        set_budget(tmp_path, {"tokens": 36})
        again = evalgate(tmp_path, "run", "--resume", "--judge-cache", "off")
        assert (again.code, len(server.requests)) == (3, 2), "36 tokens are spent already"
        assert again.record["judge"]["calls"] == 2


def test_calls_for_a_case_that_was_judged_when_the_gate_was_killed_are_counted(tmp_path: Path) -> None:
    asked = count(1)

    def holding(body: Body) -> Reply:
        return NoReply() if next(asked) == 5 else judging(body)

    with OpenAIServer(script=holding, key=KEY) as server:
        project(tmp_path, server.url, MATCH, prices={"custom/m-1": {"input": 1, "output": 1}}, **ONE_BY_ONE)
        ask_one_by_one(tmp_path)
        command = [sys.executable, "-m", "evalgate", "run", "--judge-cache", "off"]
        with subprocess.Popen(
            command, cwd=tmp_path, env={**os.environ, "MY_KEY": KEY}, stdout=subprocess.DEVNULL
        ) as gate:
            while len(server.requests) < 5:
                assert gate.poll() is None
                time.sleep(0.005)
            gate.kill()
        done = evalgate(tmp_path, "run", "--resume", "--judge-cache", "off")

    assert done.code == 1, done.err
    assert len(server.requests) == 5 + 6
    judge = done.record["judge"]
    assert (judge["calls"], judge["unpriced"]) == (4 + 1 + 6, 1), "one was on its way, and may be charged for"
    assert (judge["input_tokens"], judge["output_tokens"]) == (110, 70)


def set_budget(folder: Path, budget: object) -> None:
    config = json.loads((folder / "evalgate.json").read_text())
    (folder / "evalgate.json").write_text(json.dumps({**config, "budget": budget}))


def test_the_baseline_tells_what_the_next_run_takes(tmp_path: Path) -> None:
    with OpenAIServer(script=judging, key=KEY) as server:
        prices = {"custom/m-1": {"input": 1_000, "output": 2_000}}
        project(tmp_path, server.url, MATCH, prices=prices, gate={"baseline": "b.json"})
        first = evalgate(tmp_path, "run")
        evalgate(tmp_path, "run")  # all from the cache, and so is what the baseline is made of
        evalgate(tmp_path, "baseline", "save", "--allow-failing")
        set_budget(tmp_path, {"usd": 0.3})
        again = evalgate(tmp_path, "run", "--runs", "2")

    assert "Estimate" not in first.err
    told = [
        line
        for line in again.err.splitlines()
        if "stimate" in line or "budget" in line or "report what" in line
    ]
    assert told[0].startswith("Estimate: about 320 tokens, $0.45, ")
    assert told[0].endswith(" of conversations for 6 runs, from the usage of the baseline b.json.")
    assert told[1:] == [
        "The agent did not report what it uses: that comes on top.",
        "That is more than the budget of $0.30: the run will stop before its end, without a verdict.",
    ]


def test_shards_merge_into_what_judging_used_on_all_machines(tmp_path: Path) -> None:
    with OpenAIServer(script=judging, key=KEY) as server:
        project(tmp_path, server.url, MATCH, prices={"custom/m-1": {"input": 1_000, "output": 2_000}})
        whole = evalgate(tmp_path, "run").record["judge"]
        parts = []
        for index in (1, 2):
            more = ("--judge-cache", "off") if index == 1 else ()
            parts.append(evalgate(tmp_path, "run", "--shard", f"{index}/2", "--out", f"s{index}", *more))
        merged = evalgate(tmp_path, "merge", "s1/results.json", "s2/results.json").record["judge"]

    assert [part.code for part in parts] == [0, 0]
    assert whole["calls"] == merged["calls"] + merged["spared"] == 9
    assert merged["spared"] > 0
    paid, spared = merged["input_tokens"], merged["spared_usage"]["input_tokens"]
    assert whole["input_tokens"] == paid + spared == 99
    assert whole["cost_usd"] == pytest.approx(merged["cost_usd"] + merged["spared_usage"]["cost_usd"])


def test_a_shard_whose_judge_is_unreliable_says_so(tmp_path: Path) -> None:
    with OpenAIServer(script=judging, key=KEY) as server:
        project(tmp_path, server.url, MATCH)
        config = json.loads((tmp_path / "evalgate.json").read_text())
        config["judge"]["anchors"] = "anchors.json"
        (tmp_path / "evalgate.json").write_text(json.dumps(config))
        anchored(tmp_path, True, True)
        done = evalgate(tmp_path, "run", "--shard", "1/2")

    assert done.code == 3
    assert done.record["verdict"]["reasons"] == [
        "Shard 1 of 2: the judge is unreliable: 1 of 2 anchors, fewer than the 80% that are asked for. Missed: a1."
    ]
    assert done.record["judge"]["calls"] == 6, "the anchors"


def test_without_a_key_nothing_runs(tmp_path: Path) -> None:
    project(tmp_path, "http://localhost:1/v1", MATCH)
    (tmp_path / "agent.py").write_text("raise SystemExit('ran')")

    done = evalgate(tmp_path, "run", MY_KEY="")

    assert done.code == 2
    assert "`judge.api_key` is empty" in done.err
    assert done.err.count("evalgate.json:") == 1
    assert evalgate(tmp_path, "validate", MY_KEY="").code == 0, "a file is right without the key"


def test_without_a_judge_the_line_says_what_to_do(tmp_path: Path) -> None:
    project(tmp_path, "http://localhost:1/v1", MATCH, judge=None)

    done = evalgate(tmp_path, "validate")

    assert done.code == 2
    assert "evalgate.json:10:" in done.err
    assert (
        "`final_response_match_v2` is judged by a model; no judging model is configured: name one" in done.err
    )


def anchored(folder: Path, *labels: bool) -> None:
    anchors = [
        {
            "name": f"a{at}",
            "metric": "final_response_match_v2",
            "user": "?",
            "response": "CAKE" if at == 1 else "TEA",
            "expected": "x",
            "label": label,
        }
        for at, label in enumerate(labels, 1)
    ]
    (folder / "anchors.json").write_text(json.dumps({"anchors": anchors}, indent=1))


@pytest.mark.parametrize(
    ("labels", "code", "sentence"),
    [
        ((False, True), 1, "Note: The judge agrees with people on 2 of 2 anchors."),
        (
            (True, True),
            3,
            "The judge is unreliable: 1 of 2 anchors, fewer than the 80% that are asked for. Missed: a1. No case was run.",
        ),
    ],
)
def test_the_judge_is_held_against_people_first(
    labels: tuple[bool, ...], code: int, sentence: str, tmp_path: Path
) -> None:
    with OpenAIServer(script=judging, key=KEY) as server:
        project(tmp_path, server.url, MATCH)
        config = json.loads((tmp_path / "evalgate.json").read_text())
        config["judge"]["anchors"] = "anchors.json"
        (tmp_path / "evalgate.json").write_text(json.dumps(config))
        anchored(tmp_path, *labels)
        done = evalgate(tmp_path, "run")

    assert done.code == code, done.err
    assert sentence in done.out
    assert len(server.requests) == (15 if code == 1 else 6)
    assert KEY not in done.out + done.err + files_in(tmp_path)


def test_an_anchor_of_a_metric_that_is_not_judged_is_told_at_its_line(tmp_path: Path) -> None:
    project(tmp_path, "http://localhost:1/v1", {**MATCH, "response_match_score": 0.5})
    config = json.loads((tmp_path / "evalgate.json").read_text())
    config["judge"]["anchors"] = "anchors.json"
    (tmp_path / "evalgate.json").write_text(json.dumps(config))
    anchored(tmp_path, True)
    text = (tmp_path / "anchors.json").read_text().replace("final_response_match_v2", "response_match_score")
    (tmp_path / "anchors.json").write_text(text)

    for command in ("run", "validate"):
        done = evalgate(tmp_path, command)
        assert done.code == 2
        assert "anchors.json:5:14: `response_match_score` is no judged metric of this run" in done.err


def test_a_prompt_that_cannot_be_filled_is_found_without_a_run(tmp_path: Path) -> None:
    metrics = {"final_response_match_v2": {"threshold": 0.5, "prompt": "mine.j2"}}
    project(tmp_path, "http://localhost:1/v1", metrics)
    (tmp_path / "mine.j2").write_text("Same?\n{{ response }} {{ expected }}\n")

    done = evalgate(tmp_path, "validate", MY_KEY="")

    assert done.code == 2
    assert (
        "mine.j2:2:19: `expected` is no variable of this prompt. Known here: `mark`, `reference`" in done.err
    )


FORGING_AGENT = """
import shutil, sqlite3, hashlib
def answer(text):
    if {copies}:
        shutil.copy("forged.sqlite", ".evalgate/judge-cache.sqlite")
    else:
        file = sqlite3.connect(".evalgate/judge-cache.sqlite")
        for key, kept, used in file.execute("SELECT * FROM answers").fetchall():
            text_ = kept[32:].replace("invalid", "valid")
            digest = hashlib.sha256((key + "\\0" + text_).encode()).hexdigest()[:32]
            file.execute("UPDATE answers SET answer = ? WHERE key = ?", (digest + text_, key))
        file.commit()
    return text.upper()
"""


@pytest.mark.parametrize("copies", [True, False], ids=["new answers", "changed answers"])
def test_an_agent_cannot_answer_for_the_judge(copies: bool, tmp_path: Path) -> None:
    cache = tmp_path / ".evalgate/judge-cache.sqlite"
    label = "valid" if copies else "invalid"
    with OpenAIServer(
        script=lambda _: Completion(f'{{"is_the_agent_response_valid": "{label}"}}'), key=KEY
    ) as server:
        project(tmp_path, server.url, MATCH)
        assert evalgate(tmp_path, "run").code == (0 if copies else 1)
        if copies:
            cache.rename(tmp_path / "forged.sqlite")
        label, asked = "invalid", len(server.requests)
        (tmp_path / "agent.py").write_text(FORGING_AGENT.format(copies=copies))
        done = evalgate(tmp_path, "run")

    assert done.code == 1, done.err
    assert len(server.requests) == asked + 9, "three samples of three answers"
    assert any("answers of unknown origin" in notice for notice in done.record["notices"])
