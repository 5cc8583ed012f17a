"""Gates on real Ray clusters, whose workers, nodes and gates are killed."""

import json
import shutil
import signal
import tempfile
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.agents.matrix import FOLDER, KINDS, RECORD, extract_results
from tests.agents.ray.runs import Nodes, Rays, count_finished_runs, wait_until
from tests.agents.test_matrix import CRITERIA
from tests.cli.test_cli import eval_set, record
from tests.runner.checkpoint.test_whole_runs import results

pytestmark = pytest.mark.slow

AGENT = """\
import os, pathlib, time

HERE = pathlib.Path({folder!r})

def answer(text):
    worker = HERE / "asked" / str(os.getpid())
    worker.touch()
    began = time.monotonic()
    while must_wait(text, began):
        (HERE / "waiting" / text).touch()
        time.sleep(0.05)
    time.sleep(0.05)
    if text == "crash":
        os._exit(7)
    if text == "secret":
        return ",".join(name for name in ("MODEL_KEY", "DEPLOY_KEY") if name in os.environ)
    return text

def must_wait(text, began):
    try:
        last = int((HERE / "hold").read_text())
    except FileNotFoundError:
        return False
    # The first questions are answered slowly until a second worker has got one of them.
    alone = len(os.listdir(HERE / "asked")) < 2 and time.monotonic() < began + 5
    return alone or int((text.split() + ["999"])[1]) > last
"""
TEXTS = [*(f"question {number}" for number in range(118)), "secret", "crash"]
RUN = (
    "run",
    "demo.evalset.json",
    "--agent",
    "python:agent.py:answer",
    "--concurrency",
    "4",
    "--env",
    "MODEL_KEY",
)
ON_RAY = (*RUN, "--executor", "ray", "--workers", "2")
KEYS = {"MODEL_KEY": "the-key-of-the-model", "DEPLOY_KEY": "a-key-of-the-gate-alone"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "agent.py").write_text(AGENT.replace("{folder!r}", repr(str(tmp_path))))
    (tmp_path / "asked").mkdir()
    (tmp_path / "waiting").mkdir()
    (tmp_path / "demo.evalset.json").write_text(eval_set(*TEXTS))
    (tmp_path / "test_config.json").write_text('{"criteria": {"response_match_score": 0.8}}')
    return tmp_path


def hold_answers(folder: Path, after: int) -> None:
    """Let the agent answer no question after that one, and the others not before two workers are asked."""
    (folder / "hold").write_text(str(after))


def release_answers(folder: Path) -> None:
    (folder / "hold").unlink()


def are_held(folder: Path, after: int) -> bool:
    """Return True if each conversation of both workers waits for a question that is held."""
    names = [path.name.split() for path in (folder / "waiting").iterdir()]
    return sum(int(number) > after for _, number in names) >= 4


def count_outcomes(folder: Path) -> dict[str, int]:
    """Return the number of cases by outcome, after checking what every such run must hold."""
    cases = record(folder)["cases"]
    assert [case["eval_id"] for case in cases] == [f"case_{number}" for number in range(len(TEXTS))]
    assert [len(case["runs"]) for case in cases] == [1] * len(TEXTS)
    (turn,) = cases[-2]["runs"][0]["turns"]
    assert turn["actual"]["response"] == "MODEL_KEY"
    found = [case["runs"][0]["outcome"] for case in cases]
    return {outcome: found.count(outcome) for outcome in sorted(set(found))}


def list_lost_attempts(folder: Path) -> list[Any]:
    return [
        attempt
        for case in record(folder)["cases"]
        for attempt in case["runs"][0].get("earlier_attempts", ())
        if attempt["failure"]["kind"] == "worker_lost"
    ]


ALL = {"answered": len(TEXTS) - 1, "crashed": 1}


def test_record_is_the_same_as_of_local_workers(rays: Rays, tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / "agent", ignore=shutil.ignore_patterns("__pycache__"))
    agent = {"kind": "python", "entry": "function.py:answer", "timeout": KINDS[0].turn_s, "workers": 2}
    config = {"eval_sets": "matrix.evalset.json", "agent": agent, "criteria": CRITERIA, "executor": "ray"}
    (tmp_path / "agent" / "evalgate.yaml").write_text(json.dumps(config))

    done = rays.run("run", cwd=tmp_path / "agent")

    assert done.code == 1, done.out + done.err
    assert extract_results(record(tmp_path / "agent")) == RECORD
    assert "ray" not in done.out.lower() + done.err.lower()


def test_killed_worker_is_replaced(rays: Rays, project: Path) -> None:
    hold_answers(project, 100)
    with rays.started(*ON_RAY, cwd=project, **KEYS) as gate:
        wait_until(lambda: are_held(project, 100), gate)
        actors = rays.actors()
        assert len(actors) == 2
        actors[0].kill()
        release_answers(project)
        out, err = gate.communicate()

    assert gate.returncode == 1, out + err  # one case crashes, and one says another thing
    assert count_outcomes(project) == ALL
    lost = list_lost_attempts(project)
    assert 1 <= len(lost) <= 4
    assert {attempt["outcome"] for attempt in lost} == {"faulted"}


def test_killed_gate_resumes_locally_and_in_a_cluster(rays: Rays, project: Path) -> None:
    whole = rays.run(*RUN, "--out", "whole", cwd=project, **KEYS)
    (project / "asked" / "another").touch()
    hold_answers(project, 40)
    with rays.started(*RUN, cwd=project, **KEYS) as gate:
        wait_until(lambda: count_finished_runs(project) > 10, gate)
        gate.kill()
    begun = count_finished_runs(project)
    hold_answers(project, 80)
    with rays.started(*ON_RAY, "--resume", cwd=project, **KEYS) as gate:
        wait_until(lambda: count_finished_runs(project) > begun + 10, gate)
        gate.kill()
    release_answers(project)

    done = rays.run(*RUN, "--resume", cwd=project, **KEYS)

    assert done.code == whole.code
    assert count_outcomes(project) == ALL
    found, expected = results(project), results(project, "whole")
    assert drop_earlier_attempts(found["cases"]) == drop_earlier_attempts(expected["cases"])
    assert found["verdict"] == expected["verdict"]


def drop_earlier_attempts(cases: Any) -> Any:
    """Return the cases without their earlier attempts, which depend on the cases next to them."""
    for case in cases:
        case["runs"][0].pop("earlier_attempts", None)
    return cases


def test_existing_cluster_survives_the_loss_of_a_node(rays: Rays, nodes: Nodes, project: Path) -> None:
    address = ("--ray-address", nodes.address)
    hold_answers(project, 100)
    with rays.started(*ON_RAY, *address, cwd=project, **KEYS) as gate:
        wait_until(lambda: are_held(project, 100), gate)
        assert nodes.ask("kill") == "killed"
        release_answers(project)
        out, err = gate.communicate()
    assert count_outcomes(project) == ALL, out + err
    assert list_lost_attempts(project)
    assert nodes.actors_left() == 0

    hold_answers(project, 40)
    with rays.started(*ON_RAY, cwd=project, RAY_ADDRESS=nodes.address, **KEYS) as gate:
        wait_until(lambda: count_finished_runs(project) > 3, gate)
        gate.send_signal(signal.SIGINT)
        out, err = gate.communicate()
    assert (gate.returncode, nodes.actors_left()) == (130, 0), out + err
    assert "Interrupted after" in out


def test_lost_cluster_connection_ends_without_a_verdict(rays: Rays, project: Path) -> None:
    # Not pytest's folder: the names of Ray's sockets would be too long.
    hold_answers(project, 40)
    with tempfile.TemporaryDirectory(prefix="eg-", dir="/tmp") as folder:
        with rays.started(*ON_RAY, cwd=project, TMPDIR=folder, **KEYS) as gate:
            wait_until(lambda: count_finished_runs(project) > 3, gate)
            assert len(list(Path(folder).iterdir())) == 1
            (bridge,) = [
                each for each in psutil.Process(gate.pid).children() if "bridge.py" in str(each.cmdline())
            ]
            bridge.kill()
            out, err = gate.communicate()
        assert list(Path(folder).iterdir()) == []
    assert gate.returncode == 3, out + err
    assert "the Ray cluster is lost: the process that speaks to the Ray cluster ended" in out
    assert count_finished_runs(project) > 3


def test_unreachable_cluster_is_reported(rays: Rays, project: Path) -> None:
    done = rays.run(*ON_RAY, "--ray-address", "127.0.0.1:9", cwd=project, **KEYS)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(
        "evalgate: cannot join the Ray cluster at `127.0.0.1:9`: ConnectionRefusedError"
    )
    assert "Check --ray-address" in done.err
