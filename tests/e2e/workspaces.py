"""Create small projects for the gate to work in."""

import json
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.containers import hand_over

AGENTS = Path(__file__).parent / "agents"

THRESHOLDS = {"version": 1, "eval_sets": ["evals.json"], "criteria": {"response_match_score": 1.0}}


def workspace(folder: Path, agent: str, *conversations: tuple[str, str]) -> Path:
    """Write a project as `project` does, and make the runner's user its owner."""
    hand_over(project(folder, agent, *conversations))
    return folder


def project(folder: Path, agent: str, *conversations: tuple[str, str]) -> Path:
    """Write a project with an agent of `AGENTS` and one case for each pair of question and expected answer."""
    folder.mkdir()
    shutil.copy(AGENTS / f"{agent}.py", folder / "agent.py")
    cases = [_case(f"case_{number}", *pair) for number, pair in enumerate(conversations, start=1)]
    _write_json(folder / "evals.json", {"eval_set_id": agent, "eval_cases": cases})
    _write_json(folder / "evalgate.json", {**THRESHOLDS, "agent": {"entry": "agent.py:answer"}})
    return folder


def add_requirements(folder: Path, package: str, requirements: Sequence[str]) -> None:
    """Add a wheel of a package, and a requirements.txt that lists the wheel and `requirements`."""
    wheel = f"{package}-1.0-py3-none-any.whl"
    info = f"{package}-1.0.dist-info"
    with zipfile.ZipFile(folder / wheel, "w") as archive:
        archive.writestr(f"{package}.py", "WORD = 'hello'\n")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", f"{package}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n")
    (folder / "requirements.txt").write_text("\n".join([f"./{wheel}", *requirements, ""]), "utf-8")
    hand_over(folder)


def _case(eval_id: str, question: str, answer: str) -> dict[str, object]:
    turn = {
        "user_content": {"role": "user", "parts": [{"text": question}]},
        "final_response": {"role": "model", "parts": [{"text": answer}]},
    }
    return {"eval_id": eval_id, "conversation": [turn]}


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1), "utf-8")
