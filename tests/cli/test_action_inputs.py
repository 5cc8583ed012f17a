"""The action's inputs, and everything that has to agree with them."""

import io
import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from evalgate.ci.github_actions import OUTPUTS, add_summary, set_outputs
from evalgate.cli.action_inputs import FLAGS, INPUTS, TOKEN, build_arguments
from evalgate.cli.run import run
from evalgate.core.errors import InvalidInputError
from tests.e2e.workspaces import project

ROOT = Path(__file__).parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
COMPOSITE: dict[str, Any] = yaml.safe_load((ROOT / "composite/action.yml").read_text("utf-8"))
GUIDE = (ROOT / "docs/github-action.md").read_text("utf-8")

UNSET = {f"INPUT_{name.upper()}": "" for name in ACTION["inputs"]}
NUMBERS = {"runs", "workers", "concurrency", "timeout", "keep-results"}


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ({}, ["--"]),
        ({"INPUT_AGENT": "python:agent.py:answer"}, ["--agent=python:agent.py:answer", "--"]),
        ({"INPUT_MAX-REGRESSION": "0.1"}, ["--max-regression=0.1", "--"]),
        ({"INPUT_OUT": "  reports\n"}, ["--out=reports", "--"]),
        ({"INPUT_OUT": " \n "}, ["--"]),
        ({"INPUT_SETUP": 'pip install "a b"\\'}, ['--setup=pip install "a b"\\', "--"]),
        ({"INPUT_SETUP": "make deps\nmake agent\n"}, ["--setup=make deps\nmake agent", "--"]),
        ({"INPUT_ENV": "A_KEY B_KEY\n  C_*\n\n"}, ["--env=A_KEY", "--env=B_KEY", "--env=C_*", "--"]),
        ({"INPUT_MASK": " two words \nanother\n"}, ["--mask=two words", "--mask=another", "--"]),
        ({"INPUT_COMMENT": "true", "INPUT_CHECK": "false"}, ["--comment", "--"]),
        ({"INPUT_TOKEN": "ghs_secret"}, ["--token-env=INPUT_TOKEN", "--"]),
        (
            {"INPUT_EVAL-SETS": "evals/**/*.json\n\n  my evals/a.json:one,two  \n"},
            ["--", "evals/**/*.json", "my evals/a.json:one,two"],
        ),
        ({"INPUT_EVAL-SETS": "--out=elsewhere"}, ["--", "--out=elsewhere"]),
        ({"INPUT_AGENT": "--help"}, ["--agent=--help", "--"]),
        ({"INPUT_ARGS": "action", "INPUT_ENTRYPOINT": "/bin/x", "INPUT_GITHUB-TOKEN": "t"}, ["--"]),
        ({"INPUT_PATH": "elsewhere", "SETUP": "rm", "PATH": "/bin"}, ["--"]),
    ],
)
def test_inputs_become_arguments(inputs: dict[str, str], expected: list[str]) -> None:
    assert build_arguments({**UNSET, **inputs}) == expected


PINNED = re.compile(r"uses: (actions/[a-z-]+)@(\S+) # v(\d+)\.")
OLDEST_MAJOR = {
    "actions/checkout": 5,
    "actions/setup-python": 6,
    "actions/upload-artifact": 6,
    "actions/download-artifact": 7,
    "actions/attest": 4,
    "actions/upload-pages-artifact": 5,
    "actions/deploy-pages": 5,
}
"""The first of each that runs on Node.js 24: GitHub takes Node.js 20 from its runners."""


def workflows() -> list[Path]:
    folders = (".github/workflows", "samples/workflows", "evalgate/cli/scaffold", "docs")
    found = [
        path for folder in folders for path in (ROOT / folder).iterdir() if path.suffix in {".yml", ".md"}
    ]
    return [path for path in found if "uses: actions/" in path.read_text("utf-8")]


def test_every_action_of_github_is_pinned_to_one_commit_of_a_runtime_that_is_kept() -> None:
    pins: dict[str, set[str]] = {}
    for path in workflows():
        text = path.read_text("utf-8")
        found = PINNED.findall(text)
        assert len(found) == text.count("uses: actions/"), path
        for action, commit, major in found:
            assert re.fullmatch("[0-9a-f]{40}", commit), path
            assert int(major) >= OLDEST_MAJOR[action], path
            pins.setdefault(action, set()).add(commit)
    assert {action: len(commits) for action, commits in pins.items()} == dict.fromkeys(OLDEST_MAJOR, 1)


def test_the_required_job_is_never_skipped() -> None:
    """GitHub takes a skipped job for passed, and waits for ever for a workflow that filters skip."""
    found = 0
    for path in sorted((ROOT / "samples/workflows").glob("*.yml")):
        workflow = yaml.load(path.read_text("utf-8"), yaml.BaseLoader)
        job = workflow["jobs"].get("evalgate")
        if job is None:
            continue
        found += 1
        assert job.get("if") == ("always()" if "needs" in job else None), path
        events = workflow["on"].values()
        filters = [set(each) for each in events if isinstance(each, dict)]
        assert not any({"paths", "paths-ignore"} & each for each in filters), path
    assert found >= 5


def test_a_composite_action_hands_its_inputs_on_together() -> None:
    inputs = {**dict.fromkeys(ACTION["inputs"], ""), "eval-sets": "a b.json\n", "runs": "3", "token": "ghs_1"}
    environ = {"EVALGATE_INPUTS": json.dumps(inputs), "INPUT_TOKEN": "ghs_1"}
    assert build_arguments(environ) == ["--runs=3", "--token-env=INPUT_TOKEN", "--", "a b.json"]


def test_the_composite_action_has_the_same_inputs_and_outputs() -> None:
    own = {"extras": COMPOSITE["inputs"]["extras"], "python": None}
    assert {**COMPOSITE["inputs"], "python": None} == {**ACTION["inputs"], **own}
    assert COMPOSITE["outputs"] == {
        name: {**output, "value": f"${{{{ steps.gate.outputs.{name} }}}}"}
        for name, output in ACTION["outputs"].items()
    }


def test_the_composite_action_installs_what_the_image_has_but_for_other_hosts() -> None:
    extras = COMPOSITE["inputs"]["extras"]
    image = runpy.run_path(str(ROOT / "requirements/lock.py"))["IMAGE"]
    assert set(extras["default"].split()) == set(image) - {"gitlab"}
    assert extras["description"].endswith(f"Default: {extras['default']}.")


@pytest.mark.parametrize(
    ("extras", "wanted"),
    [
        ("", "/.."),
        ("s3", "/..[s3]"),
        ("docker github", "/..[docker,github]"),
        (" docker,\n s3 ,judge\n", "/..[docker,s3,judge]"),
    ],
)
def test_the_composite_action_installs_the_extras_that_are_named(
    tmp_path: Path, extras: str, wanted: str
) -> None:
    script = COMPOSITE["runs"]["steps"][0]["run"].replace("python3 -m venv", "true")
    gate = tmp_path / "gate/bin/python"
    gate.parent.mkdir(parents=True)
    gate.write_text('#!/bin/sh\nfor word in "$@"; do last=$word; done\nprintf %s "$last"\n')
    gate.chmod(0o755)
    environ = {"EXTRAS": extras, "SOURCE": "/..", "GATE": str(tmp_path / "gate"), "PATH": os.environ["PATH"]}
    done = subprocess.run(["bash", "-e", "-c", script], env=environ, check=True, capture_output=True)
    assert done.stdout.decode() == wanted


def test_a_release_names_its_image(tmp_path: Path) -> None:
    action, image = tmp_path / "action.yml", "docker://ghcr.io/org/evalgate@sha256:" + "0" * 64
    action.write_bytes((ROOT / "action.yml").read_bytes())
    command = [sys.executable, str(ROOT / ".github/released_action.py"), image, str(action)]
    assert subprocess.run(command, check=False).returncode == 0
    assert yaml.safe_load(action.read_text("utf-8")) == {**ACTION, "runs": {**ACTION["runs"], "image": image}}
    assert subprocess.run(command, check=False, capture_output=True).returncode == 1


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("INPUT_TRESHOLDS", "thresholds"),
        ("INPUT_MAX_REGRESSION", "max-regression"),
        ("INPUT_EVAL_SETS", "eval-sets"),
        ("INPUT_WORKING_DIRECTORY", "working-directory"),
    ],
)
def test_a_misspelt_input_stops_the_gate(name: str, meant: str) -> None:
    with pytest.raises(InvalidInputError, match=f"did you mean `{meant}`"):
        build_arguments({**UNSET, name: "x"})


@pytest.mark.parametrize("value", ["yes", "1", "True"])
def test_a_flag_is_true_or_false(value: str) -> None:
    with pytest.raises(InvalidInputError, match="`comment` must be `true` or `false`"):
        build_arguments({**UNSET, "INPUT_COMMENT": value})


def test_every_input_reaches_its_own_option() -> None:
    values = {name: "7" if name in NUMBERS else "true" if name in FLAGS else "0.5" for name in INPUTS}
    values |= {"judge-cache": "read", "shard": "3/8", "policy": "head", "executor": "ray", "report": "adk"}
    values |= {"webhook-format": "slack"}
    argv = build_arguments({f"INPUT_{name.upper()}": value for name, value in values.items()})

    context = run.make_context("run", argv)

    assert context.params.pop("shard") == (3, 8)
    given = {name: value for name, value in context.params.items() if name not in FOR_A_PERSON}
    read = {name: value[0] if isinstance(value, tuple) else value for name, value in given.items()}
    read["shard"] = values["shard"]
    found = {name: str(read[option.name or ""]).removesuffix(".0") for name, option in own_options()}
    assert found == values | dict.fromkeys(FLAGS, "True") | {TOKEN: "INPUT_TOKEN"}
    assert len(read) == len(values)


FOR_A_PERSON = {"help", "live_tools", "tags", "keyword", "failed", "sample", "seed", "watch"}
"""Options that are not inputs: a job runs every case, or those of `eval-sets`."""


def own_options() -> list[tuple[str, click.Parameter]]:
    """The options of `evalgate run` by the name of their input."""
    options = (option for option in run.params if option.name not in FOR_A_PERSON)
    named = [(option.opts[0].lstrip("-").replace("_", "-"), option) for option in options]
    return [(name.removesuffix("-env") if name == "token-env" else name, option) for name, option in named]


def test_the_inputs_are_the_options_of_run() -> None:
    options = dict(own_options())

    assert set(INPUTS) == set(ACTION["inputs"])
    assert set(options) == set(ACTION["inputs"])
    assert {option.name for option in options.values() if option.required} == set()


@pytest.mark.parametrize("name", ACTION["inputs"])
def test_an_input_is_optional_and_described_like_its_option(name: str) -> None:
    declared = ACTION["inputs"][name]
    option = dict(own_options())[name]

    assert declared["required"] is False
    assert declared["default"] == ("${{ github.token }}" if name == TOKEN else "")
    assert len(declared["description"].split()) >= 3
    assert _default(declared["description"]) == (None if name == TOKEN else _default_of(option))


def _default(description: str) -> str | None:
    found = re.search(r"Default: ([\w.[\]-]+?)\.?$", description)
    return found[1] if found else None


def _default_of(option: click.Parameter) -> str | None:
    """The default that `--help` shows, as a number or a name."""
    shown = re.search(r"\[default: ([\w.-]+)\]", getattr(option, "help", None) or "")
    if shown:
        return shown[1]
    return option.default if isinstance(option.default, str) and option.default not in {"", "."} else None


def test_the_outputs_are_what_a_run_sets() -> None:
    assert tuple(ACTION["outputs"]) == OUTPUTS
    assert all(len(declared["description"].split()) >= 3 for declared in ACTION["outputs"].values())


def test_the_action_starts_the_image_of_this_repository() -> None:
    assert ACTION["runs"] == {"using": "docker", "image": "Dockerfile", "args": ["action"]}


@pytest.mark.parametrize("kind", ["inputs", "outputs"])
def test_the_guide_lists_every_input_and_output_and_no_other(kind: str) -> None:
    section = re.search(rf"^## {kind.title()}\n(.*?)(?=^## )", GUIDE, re.MULTILINE | re.DOTALL)
    assert section is not None
    assert re.findall(r"^\| `([\w-]+)` \|", section[1], re.MULTILINE) == list(ACTION[kind])


def test_no_two_files_disagree_about_the_workflow_to_copy() -> None:
    sample = (ROOT / "samples/workflows/evalgate.yml").read_text("utf-8")
    scaffold = (ROOT / "evalgate/cli/scaffold/github-workflow.yml").read_text("utf-8")

    assert sample == scaffold
    given = yaml.safe_load(sample)["jobs"]["evalgate"]["steps"]
    gate = next(step for step in given if "evalgate@" in step.get("uses", ""))
    assert set(gate.get("with", {})) <= set(ACTION["inputs"])


@pytest.mark.parametrize("variable", ["GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"])
def test_a_link_in_the_place_of_a_runners_file_is_not_followed(tmp_path: Path, variable: str) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.touch()
    link.symlink_to(target)
    log = io.StringIO()

    environ = {variable: str(link)}
    set_outputs({"verdict": "pass"}, environ=environ, stream=log)
    add_summary("# All is well", environ=environ, stream=log)

    assert target.read_text("utf-8") == ""
    assert f"{variable} cannot be written" in log.getvalue()


def started(repository: Path, **inputs: str) -> tuple[str, str]:
    """What the action says on both streams, in a runner that checked the repository out."""
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "GITHUB_ACTIONS": "true",
        "GITHUB_WORKSPACE": str(repository),
        "GITHUB_OUTPUT": os.devnull,
        "GITHUB_STEP_SUMMARY": os.devnull,
    }
    given = {f"INPUT_{name.upper()}": value for name, value in inputs.items()}
    done = subprocess.run(
        [sys.executable, "-m", "evalgate", "action"],
        cwd=repository,
        env={**environ, **given},
        capture_output=True,
        check=False,
        text=True,
        timeout=600,
    )
    return done.stdout, done.stderr


def test_annotations_lie_on_files_of_the_repository_wherever_the_gate_works(tmp_path: Path) -> None:
    project(tmp_path / "desk", "nosy", ("hello", "something else"))

    out, err = started(tmp_path, **{"working-directory": "desk"})

    assert re.findall("^::error file=(.+?),", out, re.MULTILINE) == ["desk/evals.json"], err


def test_masks_are_registered_before_any_other_output(tmp_path: Path) -> None:
    project(tmp_path / "desk", "nosy", ("hello hunter2000", "no"))

    out, err = started(tmp_path, mask="hunter2000\nsecond secret\n", **{"working-directory": "desk"})

    assert out.splitlines()[:2] == ["::add-mask::hunter2000", "::add-mask::second secret"]
    assert "hunter2000" not in "".join(out.splitlines(keepends=True)[2:]) + err
    wrong = started(tmp_path, mask="hunter2000", runs="hunter2000")
    assert wrong[0] == "::add-mask::hunter2000\n"
    assert "Traceback" not in wrong[1]
