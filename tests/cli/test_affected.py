"""`evalgate affected` and `run --affected`: only the suites that a change concerns, and never a false green."""

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalgate.__main__ import main
from evalgate.ci.github_pull_request import _CONCLUSIONS
from tests.commands import evalgate

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/affected.md").read_text("utf-8")
SUITES = next(
    text for text in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL) if "suites:" in text
)
REST = "agent: {kind: python, entry: 'agent.py:answer'}\ncriteria: {response_match_score: 0.5}\n"
AGENT = "def answer(text):\n    return text\n"
WHO = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.com")
IN_A_PULL_REQUEST = {"GITHUB_EVENT_NAME": "pull_request", "GITHUB_BASE_REF": "main"}


def do(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *WHO, *words], cwd=folder, capture_output=True, check=True, encoding="utf-8"
    )
    return done.stdout.strip()


def build_set(name: str) -> dict[str, Any]:
    turn = {"user_content": {"parts": [{"text": name}]}, "final_response": {"parts": [{"text": name}]}}
    return {"eval_set_id": name, "eval_cases": [{"eval_id": f"{name}_case", "conversation": [turn]}]}


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project of the page on a branch `change`, which left `main` and `origin/main` and changed nothing yet."""
    for name in ("GITHUB_EVENT_NAME", "GITHUB_BASE_REF", "GITHUB_ACTIONS", "GITHUB_OUTPUT"):
        monkeypatch.delenv(name, raising=False)
    for name in ("refunds", "search"):
        write(tmp_path, **{f"evals__{name}.evalset.json": json.dumps(build_set(name))})
    files = {
        "agent.py": AGENT,
        "evalgate.yaml": SUITES + REST,
        "README.md": "",
        ".gitignore": "evalgate-report\n__pycache__",
    }
    write(tmp_path, **files, **{"prompts__refunds.txt": "", "prompts__search__a.txt": "", "uv.lock": ""})
    do(tmp_path, "init", "-q", "-b", "main")
    do(tmp_path, "add", "-A")
    do(tmp_path, "commit", "-q", "-m", "base")
    do(tmp_path, "update-ref", "refs/remotes/origin/main", "HEAD")
    do(tmp_path, "checkout", "-q", "-b", "change")
    return tmp_path


def find(project: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[list[str], str]:
    """Return the suites that are concerned, and the reason."""
    capsys.readouterr()
    assert main(["affected", "--json", *(words or ("--base", "main")), "-C", str(project)]) == 0
    found = json.loads(capsys.readouterr().out)
    return [each["suite"] for each in found["suites"] if each["affected"]], found["reason"]


BOTH = ["refunds", "search"]


@pytest.mark.parametrize(
    ("path", "suites"),
    [
        ("prompts/refunds.txt", ["refunds"]),
        ("prompts/search/new.txt", ["search"]),
        ("evals/search.evalset.json", ["search"]),
        ("agent.py", BOTH),
        ("data/table.csv", BOTH),  # read at run time, and never declared
        ("uv.lock", BOTH),
        (".github/workflows/evalgate.yml", BOTH),  # may name another model
        (".evalgate/baseline.json", BOTH),
        ("README.md", []),
    ],
)
def test_a_change_concerns_the_suites_that_declare_it(
    project: Path, capsys: pytest.CaptureFixture[str], path: str, suites: list[str]
) -> None:
    (project / path).parent.mkdir(parents=True, exist_ok=True)
    content = json.dumps(build_set("search"), indent=1) if path.startswith("evals") else AGENT * 2
    if path != ".evalgate/baseline.json":
        (project / path).write_text(content)
    else:
        assert main(["run", "-C", str(project)]) == 0
        assert main(["baseline", "save", "-C", str(project)]) == 0
    do(project, "add", "-A")
    do(project, "commit", "-q", "-m", "change")
    assert find(project, capsys)[0] == suites


def test_the_change_cannot_narrow_the_rules_that_select(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "evalgate.yaml").write_text((SUITES + REST).replace("**/*.md", "**"), "utf-8")
    (project / "uv.lock").write_text("changed", "utf-8")
    do(project, "commit", "-q", "-a", "-m", "change")
    for name, value in IN_A_PULL_REQUEST.items():
        monkeypatch.setenv(name, value)
    decides = "Every suite runs: evalgate.yaml decides how the agent runs or how the gate judges."
    assert find(project, capsys, "-c", "evalgate.yaml") == (BOTH, decides)
    (project / "README.md").write_text("changed")
    # An edited command line compares with the target branch all the same.
    assert find(project, capsys, "--base", "HEAD") == (BOTH, decides)


def test_the_agents_entry_and_environment_concern_all_suites_whatever_one_declares(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = SUITES.replace("agent.py, prompts/search/**", "prompts/search/**").replace(
        "tools/**", "config/**"
    )
    rest = REST.replace("'agent.py:answer'", "'agent.py:answer', env_file: config/agent.vars")
    (project / "evalgate.yaml").write_text(rules + rest)
    write(project, **{"config__agent.vars": "A=1\n", "config__other": ""})
    do(project, "add", "-A")
    do(project, "commit", "-q", "-m", "rules")
    do(project, "branch", "-f", "main")
    for path, expected in {
        "agent.py": BOTH,
        "config/agent.vars": BOTH,
        "config/other": ["refunds"],
    }.items():
        before = (project / path).read_text()
        (project / path).write_text(f"{before}\n")
        assert find(project, capsys)[0] == expected, path
        (project / path).write_text(before)


def test_what_a_link_leads_to_counts_as_the_link(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "data").mkdir()
    for name in ("evals/search.evalset.json", "agent.py"):
        (project / name).rename(project / "data" / Path(name).name)
    (project / "evals/search.evalset.json").symlink_to("../middle.json")
    (project / "middle.json").symlink_to("data/search.evalset.json")
    (project / "agent.py").symlink_to("data/agent.py")
    rules = SUITES.replace('"**/*.md"', "data/**, middle.json")
    (project / "evalgate.yaml").write_text(rules + REST)
    write(project, data__other="")
    do(project, "add", "-A")
    do(project, "commit", "-q", "-m", "links")
    do(project, "branch", "-f", "main")
    for path, expected in {
        "data/search.evalset.json": ["search"],
        "data/agent.py": BOTH,
        "data/other": [],
    }.items():
        before = (project / path).read_text()
        (project / path).write_text(f"{before}\n")
        found = find(project, capsys)
        assert found[0] == expected, (path, found)
        (project / path).write_text(before)
    (project / "middle.json").unlink()
    (project / "middle.json").symlink_to("evals/refunds.evalset.json")
    assert find(project, capsys)[0] == ["search"]


@pytest.mark.parametrize(
    ("agent", "path"),
    [
        ("kind: python, entry: 'bot.app:answer'", "bot/__init__.py"),
        ("kind: adk, entry: bot", "bot/agent.py"),
        ("kind: command, command: [python3, bot/main.py]", "bot/main.py"),
        ("kind: command, command: 'python3 bot/main.py --config=bot/config'", "bot/config"),
        ("kind: python, entry: 'agent.py:answer', setup: sh bot/install.sh", "bot/install.sh"),
    ],
)
def test_files_that_the_agents_section_names_concern_all_suites(
    project: Path, capsys: pytest.CaptureFixture[str], agent: str, path: str
) -> None:
    rules = SUITES.replace("agent.py, prompts/search/**", "bot/**")
    rest = REST.replace("kind: python, entry: 'agent.py:answer'", agent)
    (project / "evalgate.yaml").write_text(rules + rest)
    do(project, "commit", "-q", "-a", "-m", "rules")
    do(project, "branch", "-f", "main")
    (project / "bot").mkdir()
    (project / "bot/other").touch()
    assert find(project, capsys)[0] == ["search"]
    (project / path).touch()
    assert find(project, capsys)[0] == BOTH


def test_files_of_earlier_steps_do_not_make_a_change_of_the_base(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "REPORT.md").touch()  # untracked, as a report of an earlier step of the job
    for name, value in IN_A_PULL_REQUEST.items():
        monkeypatch.setenv(name, value)
    suites, reason = find(project, capsys, "-c", "evalgate.yaml")
    assert (suites, "the commit that is checked out does not differ" in reason) == (BOTH, True)
    do(project, "commit", "-q", "--allow-empty", "-m", "nothing")
    assert find(project, capsys, "-c", "evalgate.yaml")[0] == BOTH


@pytest.mark.parametrize("option", ["--assume-unchanged", "--skip-worktree"])
def test_files_that_git_was_told_to_ignore_run_everything(
    project: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    do(project, "update-index", option, "prompts/refunds.txt")
    (project / "prompts/refunds.txt").write_text("hidden")
    (project / "README.md").write_text("changed")
    suites, reason = find(project, capsys)
    assert (suites, "prompts/refunds.txt" in reason) == (BOTH, True)


def test_without_a_base_or_with_an_unknown_one_everything_runs(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "README.md").write_text("changed")
    assert find(project, capsys, "-c", "evalgate.yaml")[0] == BOTH
    assert find(project, capsys, "--base", "elsewhere") == (
        BOTH,
        "Every suite runs: git does not know elsewhere here: fetch it first.",
    )
    assert find(project, capsys)[0] == []
    do(project, "update-ref", "-d", "refs/remotes/origin/main")
    do(project, "config", "core.bare", "true")
    assert "git failed" in find(project, capsys)[1]


def test_a_shallow_checkout_runs_everything(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(2):
        (project / "README.md").write_text(f"changed {number}")
        do(project, "commit", "-q", "-a", "-m", "change")
    folder = tmp_path / "shallow"
    do(tmp_path, "clone", "-q", "--depth=1", "--no-single-branch", project.as_uri(), str(folder))
    suites, reason = find(folder, capsys, "--base", "origin/main")
    assert (suites, "shallow" in reason) == (BOTH, True)


def test_the_matrix_and_the_explanations_of_the_page(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "prompts/search/new.txt").write_text("new")
    shown = [json.loads(text) for text in re.findall(r"`?(\{\"(?:include|suite)\".*\})`?", PAGE)]
    output = project.parent / "output"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_OUTPUT", str(output))
    output.touch()
    assert main(["affected", "--matrix", "--base", "main", "-C", str(project)]) == 0
    assert json.loads(capsys.readouterr().out) == shown[0]
    assert json.dumps(shown[0]) in output.read_text()
    (project / "prompts/search/new.txt").unlink()
    (project / "README.md").write_text("changed")
    assert main(["affected", "--matrix", "--base", "main", "-C", str(project)]) == 0
    assert json.loads(capsys.readouterr().out) == {"include": [shown[1]]}

    commands = [
        shlex.split(line)[1:] for line in re.findall(r"^evalgate affected .*--explain.*$", PAGE, re.MULTILINE)
    ]
    assert main([*commands[0], "-C", str(project)]) == 0
    assert capsys.readouterr().out == (
        "prompts/refunds.txt matches `prompts/refunds.txt` of refunds. Concerned: refunds.\n"
    )


def test_a_run_that_concerns_nothing_is_skipped_and_never_passed(project: Path) -> None:
    (project / "README.md").write_text("changed")
    (project / "agent.py").chmod(0o644)
    done = evalgate("run", "--affected", "--base", "main", cwd=project)
    assert done.code == 0
    assert done.record["verdict"] == {
        "status": "skipped",
        "exit_code": 0,
        "reasons": [
            "Nothing that this change touches concerns an eval set.",
            "README.md is ignored by `**/*.md`.",
        ],
    }
    assert done.record["cases"] == []
    texts = [(project / "evalgate-report" / name).read_text() for name in ("comment.md", "junit.xml")]
    assert "Skipped: Nothing that this change touches concerns an eval set" in texts[0]
    assert "<skipped" in texts[1]
    assert "SKIPPED" in done.out
    assert not any(re.search("pass|open|✅", text, re.IGNORECASE) for text in (*texts, done.out))
    assert _CONCLUSIONS["skipped"] == "neutral"
    saved = evalgate("baseline", "save", cwd=project)
    assert (saved.code, "limited to 0 of 2 cases" in saved.err) == (2, True)


def test_a_run_makes_only_the_concerned_cases_and_says_so(project: Path) -> None:
    (project / "prompts/search/a.txt").write_text("changed")
    done = evalgate("run", "--affected", "--base", "main", cwd=project)
    assert [case["eval_id"] for case in done.record["cases"]] == ["search_case"]
    assert done.record["selection"] == {"options": ["--affected", "--base", "main"], "cases": 1, "of": 2}
    assert done.record["verdict"]["status"] == "pass"
    # A leg of the matrix names its suite, and knows the files of the others.
    other = evalgate("run", "refunds", "--affected", "--base", "main", cwd=project)
    assert other.record["verdict"]["status"] == "skipped"
    # No case is left although a suite is concerned: that is an error, not a skipped run.
    none = evalgate("run", "--affected", "--base", "main", "-k", "refunds", cwd=project)
    assert none.code == 2


def test_if_everything_is_concerned_the_run_is_whole(project: Path) -> None:
    (project / "uv.lock").write_text("changed")
    done = evalgate("run", "--affected", "--base", "main", cwd=project)
    assert len(done.record["cases"]) == 2
    assert "selection" not in done.record
    assert any("uv.lock may change what is installed" in notice for notice in done.record["notices"])


def test_globs_that_match_no_file_are_warned_of(project: Path) -> None:
    do(project, "rm", "-q", "prompts/refunds.txt")
    (project / "tools").mkdir()
    (project / "tools/find.pyc").write_text("")
    (project / ".gitignore").write_text("tools/*.pyc\n")
    done = evalgate("validate", cwd=project)
    assert done.code == 0
    assert [line for line in done.out.splitlines() if "matches no file" in line] == [
        "evalgate.yaml:5: `prompts/refunds.txt` in `affects` of `refunds` matches no file of the repository",
        "evalgate.yaml:5: `tools/**` in `affects` of `refunds` matches no file of the repository",
    ]
    (project / ".git").rename(project / "git")
    assert "matches no file" not in evalgate("validate", cwd=project).out


def test_a_misspelt_suite_is_named(project: Path) -> None:
    done = evalgate("run", "refuns", cwd=project)
    assert (done.code, done.err.count("Did you mean `refunds`?")) == (2, 1)
    (project / "refuns.json").write_text("{}")
    assert "Did you mean" not in evalgate("run", "refuns.json", cwd=project).err
    assert "Did you mean refuns.json?" in evalgate("run", "refuns.jso", cwd=project).err


def test_a_suites_name_stands_for_its_eval_sets(project: Path) -> None:
    done = evalgate("run", "refunds", cwd=project)
    assert [case["eval_id"] for case in done.record["cases"]] == ["refunds_case"]
    assert evalgate("validate", "search", cwd=project).out.startswith("evals/search.evalset.json: 1 case")


TRACKING = """\
import json, pathlib, sqlite3, sys
import helper

def answer(text):
    pathlib.Path("notes.txt").write_text("own")
    pathlib.Path("notes.txt").read_text()
    if text == "search":
        import late
        open("../shared/search.txt").close()
        sqlite3.connect("search.sqlite").close()
    else:
        pathlib.Path("link.txt").read_text()
    return text
"""


def build_tracking_project(tmp_path: Path) -> Path:
    folder = tmp_path / "agents"
    rules = (
        f"{REST}gate: {{statistics: {{confirm_runs: 1}}}}\neval_sets: [evals/refunds.evalset.json, "
        "evals/search.evalset.json]\n"
    ).replace("'agent.py:answer'", "'agent.py:answer', track_files: true, concurrency: 1")
    for name in ("refunds", "search"):
        write(folder, **{f"evals__{name}.evalset.json": json.dumps(build_set(name))})
    files = {
        "agent.py": TRACKING,
        "helper.py": "",
        "late.py": "",
        "evalgate.yaml": rules,
        "search.sqlite": "",
    }
    write(folder, **files, **{"target.txt": "", "seen-by-none.txt": ""})
    (folder / "link.txt").symlink_to("target.txt")
    write(tmp_path, **{"shared__search.txt": "", ".gitignore": "evalgate-report\n__pycache__\nnotes.txt\n"})
    do(tmp_path, "init", "-q", "-b", "main")
    do(tmp_path, "add", "-A")
    do(tmp_path, "commit", "-q", "-m", "code")
    return folder


def test_the_files_that_the_agent_opened_select_its_suites(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = build_tracking_project(tmp_path)
    everything = ["evals/refunds.evalset.json", "evals/search.evalset.json"]
    (folder / "late.py").write_text("1")
    assert main(["affected", "--explain", "late.py", "--base", "main", "-C", str(folder)]) == 0
    assert find(folder, capsys)[0] == everything
    (folder / "late.py").write_text("")

    done = evalgate("run", cwd=folder)
    assert {each["eval_set_id"]: each["paths"] for each in done.record["files"]} == {
        "refunds": ["agent.py", "helper.py", "link.txt", "target.txt"],
        "search": [
            "../shared/search.txt",
            "agent.py",
            "helper.py",
            "late.py",
            "link.txt",
            "search.sqlite",
            "target.txt",
        ],
    }
    assert evalgate("baseline", "save", cwd=folder).code == 0
    do(tmp_path, "add", "-A")
    do(tmp_path, "commit", "-q", "-m", "baseline")

    for path, expected in {
        "late.py": everything[1:],
        "../shared/search.txt": everything[1:],
        "target.txt": everything,  # search came later in the same process, and may have kept it
        "agent.py": everything,
        "seen-by-none.txt": everything,
    }.items():
        before = (folder / path).read_text()
        (folder / path).write_text(f"{before}\n# edited\n")
        suites, reason = find(folder, capsys)
        assert suites == expected, (path, reason)
        (folder / path).write_text(before)

    # A file that the agent writes in each run and git ignores can be left out by `ignored`, whatever it holds.
    (folder / "notes.txt").write_text("own")
    stored = json.loads((folder / ".evalgate/baseline.json").read_text())
    for each in stored["files"]:
        each["paths"].append("notes.txt")
        each["digests"]["notes.txt"] = "0" * 16
    rules = (folder / "evalgate.yaml").read_text()
    (folder / "evalgate.yaml").write_text(f"{rules}affected: {{ignored: [notes.txt]}}\n")
    unedited = (folder / ".evalgate/baseline.json").read_text()
    (folder / ".evalgate/baseline.json").write_text(json.dumps(stored))
    do(tmp_path, "commit", "-q", "-a", "-m", "notes")
    (folder / "late.py").write_text("1")
    assert find(folder, capsys)[0] == everything[1:]
    (folder / "late.py").write_text("")
    (folder / "evalgate.yaml").write_text(rules)
    (folder / ".evalgate/baseline.json").write_text(unedited)
    do(tmp_path, "commit", "-q", "-a", "-m", "back")

    # Once an opened file or the eval set changed on the base as well, the list may lack what it opens now.
    for path in ("target.txt", "evals/refunds.evalset.json"):
        before = (folder / path).read_text()
        (folder / path).write_text(f"{before}\n")
        do(tmp_path, "commit", "-q", "-a", "-m", "base moves on")
        (folder / "late.py").write_text("1")
        suites, _ = find(folder, capsys)
        assert suites == everything, path
        assert main(["affected", "--explain", "late.py", "--base", "main", "-C", str(folder)]) == 0
        why = f"refunds.evalset.json has a list of opened files from before {path} changed"
        assert why in capsys.readouterr().out
        (folder / "late.py").write_text("")
        (folder / path).write_text(before)
        do(tmp_path, "commit", "-q", "-a", "-m", "back")
    (folder / "late.py").write_text("1")
    assert find(folder, capsys)[0] == everything[1:]
    (folder / "late.py").write_text("")

    # A suite that runs by itself has a list of its own, even with several runs of each case.
    (folder / ".evalgate/baseline.json").unlink()
    for name in everything:
        assert evalgate("run", name, "--runs", "2", cwd=folder).code == 0
        assert evalgate("baseline", "save", cwd=folder).code == 0
    stored = json.loads((folder / ".evalgate/baseline.json").read_text())["files"]
    assert ["late.py" in each["paths"] for each in stored] == [False, True]
    assert ["link.txt" in each["paths"] for each in stored] == [True, False]

    # A file that is generated later, and by whom git does not say, may be made of anything.
    (folder / "link.txt").unlink()
    (folder / "link.txt").symlink_to("../generated.txt")
    write(
        tmp_path,
        **{"generated.txt": "", ".gitignore": "evalgate-report\n__pycache__\nnotes.txt\ngenerated.txt\n"},
    )
    assert evalgate("run", everything[0], cwd=folder).code == 0
    assert evalgate("baseline", "save", cwd=folder).code == 0
    (tmp_path / "generated.txt").unlink()
    do(tmp_path, "add", "-A")
    do(tmp_path, "commit", "-q", "-m", "generated")
    (folder / "late.py").write_text("1")
    assert main(["affected", "--explain", str(folder / "late.py"), "--base", "main", "-C", str(folder)]) == 0
    assert capsys.readouterr().out == (
        "late.py is opened by the agent in evals/search.evalset.json; evals/refunds.evalset.json opens "
        "../generated.txt, which git does not track. Concerned: evals/refunds.evalset.json, "
        "evals/search.evalset.json.\n"
    )
    (folder / "late.py").write_text("")
    write(tmp_path, **{"generated.txt": ""})

    # A later run that tracks nothing, or has a gap, leaves no list: the suite runs at every change.
    (folder / "agent.py").write_text(f"import os\nos.system('true')\n{TRACKING}")
    done = evalgate("run", cwd=folder)
    assert "files" not in done.record
    assert any("could not be tracked completely" in notice for notice in done.record["notices"])
    assert evalgate("baseline", "save", cwd=folder).code == 0
    assert "files" not in json.loads((folder / ".evalgate/baseline.json").read_text())


def test_merged_shards_say_that_they_keep_no_list_of_files(tmp_path: Path) -> None:
    folder = build_tracking_project(tmp_path)
    for shard in ("1", "2"):
        assert evalgate("run", "--runs", "1", "--shard", f"{shard}/2", "--out", shard, cwd=folder).code == 0
    merged = evalgate("merge", "--runs", "1", "1", "2", cwd=folder)
    assert merged.code == 0, merged.err
    assert any("or made in shards, has no list" in notice for notice in merged.record["notices"])


@pytest.mark.parametrize(
    "words",
    [("--base", "main"), ("--affected", "--shard", "1/2"), ("--affected", "--watch")],
)
def test_options_that_cannot_be_combined(project: Path, words: tuple[str, ...]) -> None:
    assert main(["run", *words, "-C", str(project)]) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("suites: {a: {eval_sets: []}}", "evalgate.yaml:1:"),
        ("suites: {a: {affects: [x]}}", "eval_sets"),
        ("suites: {a: {eval_sets: [x], affected: [x]}}", "Did you mean `affects`?"),
        ("suites: {a: {eval_sets: [x], affects: [/x]}}", "relative to the working folder"),
        ("suites: {a: {eval_sets: [x], affects: ['!x']}}", "must be a glob"),
        ("affected: {ignored: ['']}", "must be a glob"),
    ],
)
def test_wrong_sections_are_errors_with_their_place(
    project: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    (project / "evalgate.yaml").write_text(f"{text}\n{REST}")
    assert main(["validate", "-C", str(project)]) == 2
    error = capsys.readouterr().err
    assert "evalgate.yaml:1:" in error
    assert message in error


def test_the_sample_requires_a_job_that_always_runs_and_asks_for_success() -> None:
    workflow = yaml.safe_load((ROOT / "samples/workflows/evalgate-affected.yml").read_text("utf-8"))
    last = workflow["jobs"]["evalgate"]
    assert last["if"] == "always()"
    assert set(last["needs"]) == set(workflow["jobs"]) - {"evalgate"}
    (step,) = last["steps"]
    for results, code in (
        ("success success", 0),
        ("success skipped", 1),
        ("failure skipped", 1),
        ("success failure", 1),
    ):
        assert (
            subprocess.run(["bash", "-c", step["run"]], env={"RESULTS": results}, check=False).returncode
            == code
        )
    assert all("if" not in job for name, job in workflow["jobs"].items() if name != "evalgate")
