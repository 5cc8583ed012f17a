"""Which code of a custom metric decides: what the base has, read before an agent can write anything."""

import json
import math
import os
import py_compile
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from evalgate.config.cli_overrides import Overrides
from evalgate.config.schema.criteria import CustomMetricConfig
from evalgate.core import plugin_registry
from evalgate.core.protocols import MetricCode, MetricEnvironment
from evalgate.core.types import CaseRun, Criterion, MetricFailure, MetricScore, Reply
from evalgate.metrics import custom_metric_code, custom_metric_process
from evalgate.metrics.custom_metric_process import build_custom_metric
from evalgate.runner.plan import Plan, build_plan
from tests.builders import a_case, a_reply, a_turn
from tests.forbidden_folders import make_forbidden_folder
from tests.runner.test_base_branch import PULL_REQUEST, git

CASE = a_case("hello", a_turn(expected=a_reply("sunny")))
RUN = CaseRun(1, "answered", (Reply("sunny"),))
ENV = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
HELPERS = "def value():\n    return 0.0\n"
FILES = {
    "agent.py": "def answer(text):\n    return 'no'\n",
    "a.json": json.dumps(
        {
            "eval_set_id": "a",
            "eval_cases": [
                {"eval_id": "hello", "conversation": [{"user_content": {"parts": [{"text": "Hello"}]}}]}
            ],
        }
    ),
    "metrics/refund.py": (
        "from pathlib import Path\nfrom helpers import value\n\n"
        "def score(case, run):\n"
        "    words = Path(__file__).with_name('words.txt').read_text()\n"
        "    return {'score': value(), 'reason': words}\n"
    ),
    "metrics/words.txt": "base",
    "helpers.py": HELPERS,
    "pkg/__init__.py": "from pkg.inner import LEVEL\n",
    "pkg/inner.py": "LEVEL = 0.0\n",
    "pkg/metric.py": "import pkg\n\ndef score(case, run):\n    return pkg.LEVEL\n",
    "src/own/__init__.py": "",
    "src/own/metric.py": "from own.rest import LEVEL\n\ndef score(case, run):\n    return LEVEL\n",
    "src/own/rest.py": "LEVEL = 0.0\n",
}


def rules(entry: str) -> str:
    return json.dumps(
        {
            "version": 1,
            "eval_sets": ["a.json"],
            "agent": {"entry": "agent.py:answer"},
            "criteria": {"mine": 1.0},
            "custom_metrics": {"mine": entry},
        }
    )


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A folder of a repository; what is there is the base."""
    folder = tmp_path / "repository" / "desk"
    write(folder, FILES)
    git(folder.parent, "init", "-q")
    return folder


def commit(folder: Path, *, is_base: bool = False) -> None:
    git(folder, "add", "-A", ".")
    git(folder, "commit", "-q", "-m", "Change")
    if is_base:
        git(folder, "update-ref", "refs/remotes/origin/main", "HEAD")


def plan_in(folder: Path, **environ: str) -> Plan:
    return build_plan(Overrides(), thresholds_file=None, folder=folder, environ={**ENV, **environ})


async def score(plan: Plan) -> tuple[float | str, str]:
    metric = plan.suites[0].metrics[0].metric
    try:
        found = await metric.score(CASE, RUN)
    finally:
        await metric.aclose()  # type: ignore[attr-defined]
    if isinstance(found, MetricScore):
        return found.score, found.reason
    assert isinstance(found, MetricFailure)
    return "failed", found.reason


@pytest.mark.parametrize(
    ("entry", "change", "edited"),
    [
        (
            "metrics/refund.py:score",
            {"metrics/refund.py": "def score(case, run):\n    return 1.0\n"},
            "metrics/refund.py, which decides",
        ),
        (
            "metrics/refund.py:score",
            {"helpers.py": HELPERS.replace("0.0", "1.0"), "metrics/words.txt": "change"},
            "helpers.py, which decides",
        ),
        (
            "metrics.refund:score",
            {"metrics/helpers.py": HELPERS.replace("0.0", "1.0")},
            "metrics/helpers.py, which decides",
        ),
        (
            "pkg.metric:score",
            {"pkg/inner.py": "LEVEL = 1.0\n", "pkg/metric.py": "def score(case, run):\n    return 1.0\n"},
            "pkg/inner.py, pkg/metric.py, which decide",
        ),
        ("pkg/metric.py:score", {"pkg/__init__.py": "LEVEL = 1.0\n"}, "pkg/__init__.py, which decides"),
        ("own.metric:score", {"src/own/rest.py": "LEVEL = 1.0\n"}, "src/own/rest.py, which decides"),
    ],
)
async def test_a_change_cannot_rewrite_the_metric_that_gates_it(
    desk: Path, entry: str, change: dict[str, str], edited: str
) -> None:
    write(desk, {"evalgate.json": rules(entry)})
    commit(desk, is_base=True)
    before = plan_in(desk).suites[0].metrics[0].fingerprint
    write(desk, change)
    commit(desk)
    plan = plan_in(desk, **PULL_REQUEST)
    value, reason = await score(plan)
    assert (value, reason) == (0.0, "base" if "refund" in entry else "")
    assert plan.suites[0].metrics[0].fingerprint == before
    (told,) = [notice for notice in plan.notices if "This change edits" in notice]
    assert told.startswith(f"This change edits {edited}")


async def test_what_only_the_base_branch_has_edited_of_a_metric_is_no_edit_of_the_change(desk: Path) -> None:
    """The checkout is no merge, as in Buildkite, and the base branch moved on."""
    write(desk, {"evalgate.json": rules("metrics/refund.py:score")})
    commit(desk, is_base=True)
    refund = (desk / "metrics/refund.py").read_text().replace("value()", "value() / 2")
    write(desk, {"helpers.py": HELPERS.replace("0.0", "1.0"), "metrics/refund.py": refund})
    commit(desk, is_base=True)
    git(desk, "checkout", "-q", "--detach", "HEAD^")
    write(desk, {"metrics/refund.py": FILES["metrics/refund.py"] + "# mine"})
    commit(desk)

    plan = plan_in(desk, **PULL_REQUEST)

    assert (await score(plan))[0] == 0.5
    assert [each for each in plan.notices if ".py" in each] == [
        ("This change edits metrics/refund.py, which decides: the gate used the version of the base branch."),
        (
            "The base branch has a newer version since the change branched off: helpers.py, which decides. "
            "The gate used it."
        ),
    ]


async def test_a_change_that_removes_its_metric_is_judged_by_it(desk: Path) -> None:
    write(desk, {"evalgate.json": rules("pkg.metric:score")})
    commit(desk, is_base=True)
    (desk / "pkg/metric.py").unlink()
    commit(desk)
    plan = plan_in(desk, **PULL_REQUEST)
    assert await score(plan) == (0.0, "")


async def test_a_metric_that_is_new_is_said(desk: Path) -> None:
    commit(desk, is_base=True)
    write(desk, {"evalgate.json": rules("new.py:score"), "new.py": "def score(case, run):\n    return 1.0\n"})
    commit(desk)
    plan = plan_in(desk, **PULL_REQUEST)
    assert await score(plan) == (1.0, "")
    assert (
        "The metric new.py is new in this change: the base branch has none, so the change's own code decides."
        in plan.notices
    )


def test_a_metric_that_is_installed_is_said(desk: Path) -> None:
    write(desk, {"evalgate.json": rules("json:dumps")})
    commit(desk, is_base=True)
    notice = (
        "The code of the metric json is not in this folder: the gate used what is installed, which the change "
        "may have chosen."
    )
    assert notice in plan_in(desk, **PULL_REQUEST).notices
    assert notice not in plan_in(desk).notices


async def test_a_base_that_was_not_fetched_is_reported_for_a_metric(desk: Path) -> None:
    write(desk, {"evalgate.json": rules("pkg.metric:score")})
    commit(desk)
    assert (
        "evalgate.json, pkg.metric were read as the change has them"
        in plan_in(desk, **PULL_REQUEST).notices[0]
    )


@pytest.mark.parametrize(
    ("entry", "environ"),
    [
        ("metrics/refund.py:score", {}),
        ("pkg.metric:score", {}),
        ("own.metric:score", {"PYTHONPATH": "src"}),
        ("json:dumps", {}),
    ],
)
async def test_nothing_that_the_agent_writes_changes_a_metric(
    desk: Path, entry: str, environ: dict[str, str]
) -> None:
    write(desk, {"evalgate.json": rules(entry)})
    plan = plan_in(desk, **environ)
    planted = "value = lambda: 1.0\nLEVEL = 1.0\nscore = dumps = lambda case, run: 1.0\n"
    for name in (*FILES, "json.py", "pathlib.py", "src/json.py", "metrics/pathlib.py", "own.py"):
        if name.endswith(".py"):
            (desk / name).write_text(planted)  # as an agent could, before the metric's process starts
    value, _ = await score(plan)
    assert value in (0.0, "failed")


async def test_files_of_another_user_s_workspace_cannot_be_written(desk: Path) -> None:
    write(
        desk,
        {
            "evalgate.json": rules("m/look.py:score"),
            "m/look.py": (
                "import os\nfrom pathlib import Path\n\ndef score(case, run):\n"
                "    own = Path(__file__)\n"
                "    return {'score': 0.0, 'reason': f'{own.stat().st_mode & 0o222} "
                "{own.parent.stat().st_mode & 0o222} {os.getcwd()}'}\n"
            ),
        },
    )
    assert await score(plan_in(desk)) == (0.0, f"0 0 {desk}")


BASE_PYTHON = getattr(sys, "_base_executable", sys.executable)
"""An interpreter outside of a virtual environment, which looks for modules in the home of its user."""


def find_user_packages(environ: dict[str, str]) -> Path:
    asked = [BASE_PYTHON, "-c", "import site; print(site.getusersitepackages())"]
    return Path(subprocess.run(asked, env=environ, capture_output=True, text=True, check=True).stdout.strip())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts processes of other users")
async def test_modules_in_the_home_of_the_agent_s_user_are_not_imported(desk: Path, tmp_path: Path) -> None:
    home = {**ENV, "HOME": str(tmp_path)}
    write(find_user_packages(home), {"usercustomize.py": "import math\nmath.pi = 1.0\n"})
    write(desk, {"pi.py": "import math\n\ndef score(case, run):\n    return math.pi\n"})
    config = CustomMetricConfig(entry="pi.py:score", python=BASE_PYTHON)
    environment = MetricEnvironment(desk, home, os.geteuid(), os.getegid())
    metric = build_custom_metric(Criterion("mine", 1.0), config, environment)
    try:
        found = await metric.score(CASE, RUN)
    finally:
        await metric.aclose()
    assert isinstance(found, MetricScore)
    assert found.score == math.pi


@pytest.mark.parametrize(
    ("name", "size", "hint"),
    [
        ("metrics/words.bin", 3, ""),
        ("metrics/words.bin", 8 * 1024 * 1024 + 1, "in there; too large to be copied: metrics/words.bin."),
        ("words.bin", 3, "copy of its module's folder: keep the files that it reads in there."),
    ],
)
async def test_a_file_that_is_not_copied_is_said(desk: Path, name: str, size: int, hint: str) -> None:
    place = (
        "Path(__file__).with_name('words.bin')" if "/" in name else "Path(__file__).parents[2] / 'words.bin'"
    )
    code = (
        f"from pathlib import Path\n\ndef score(case, run):\n    return float(len(({place}).read_bytes()))\n"
    )
    write(desk, {"evalgate.json": rules("metrics/reads.py:score"), "metrics/reads.py": code})
    (desk / name).write_bytes(b"x" * size)
    value, reason = await score(plan_in(desk))
    assert (value == size) is not bool(hint)
    assert reason.endswith(hint)


async def test_folders_of_others_are_not_kept(desk: Path) -> None:
    for name in ("metrics/.hidden/a", "metrics/node_modules/a", "metrics/venv/pyvenv.cfg", "metrics/venv/a"):
        write(desk, {name: "x"})
    make_forbidden_folder(desk / "metrics/data")
    write(desk, {"evalgate.json": rules("metrics/refund.py:score"), "metrics/deep/b": "x"})
    commit(desk, is_base=True)
    for plan in (plan_in(desk), plan_in(desk, **PULL_REQUEST)):
        metric = plan.suites[0].metrics[0].metric
        kept = {path for path in metric._code.files if "venv" not in path}  # type: ignore[attr-defined]
        assert kept == {"helpers.py", "metrics/deep/b", "metrics/refund.py", "metrics/words.txt"}


@pytest.fixture
def forget_plugins() -> Iterator[None]:
    """Forget the installed plugins that are known, before and after the test."""
    caches = (plugin_registry.list_entry_points, plugin_registry._may_have_plugins)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


def install_plugin(site: Path, source: Path | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the package `shiny` on the path, as pip installs it from the folder `source`, or from an index."""
    about = {
        "METADATA": "Name: shiny\nVersion: 1.0\n",
        "entry_points.txt": "[evalgate.metrics]\nshiny = shiny:X\n",
    }
    url = {"direct_url.json": json.dumps({"url": source.as_uri(), "dir_info": {}})} if source else {}
    write(site / "shiny-1.0.dist-info", {**about, **url})
    monkeypatch.syspath_prepend(site)


@pytest.mark.usefixtures("forget_plugins")
@pytest.mark.parametrize("place", ["plugin", "elsewhere", None])
def test_a_plugin_that_the_change_edits_is_said(
    desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str | None
) -> None:
    write(desk, {"evalgate.json": rules("pkg.metric:score"), "plugin/shiny.py": "", "elsewhere/shiny.py": ""})
    commit(desk, is_base=True)
    write(desk, {"plugin/shiny.py": "LEVEL = 1.0"})
    install_plugin(tmp_path / "site", desk / place if place else None, monkeypatch)

    told = [each for each in plan_in(desk, **PULL_REQUEST).notices if "`shiny`" in each]

    sentence = (
        "This change edits plugin, which the package `shiny` with plugins of evalgate was installed from: "
        "the change's own version was used, because it is what is installed."
    )
    assert told == ([sentence] if place == "plugin" else [])


@pytest.mark.usefixtures("forget_plugins")
def test_a_plugin_that_only_the_base_branch_has_edited_is_said(
    desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(desk, {"evalgate.json": rules("pkg.metric:score"), "plugin/shiny.py": ""})
    commit(desk, is_base=True)
    write(desk, {"plugin/shiny.py": "LEVEL = 1.0"})
    commit(desk, is_base=True)
    git(desk, "checkout", "-q", "--detach", "HEAD^")
    install_plugin(tmp_path / "site", desk / "plugin", monkeypatch)

    assert [each for each in plan_in(desk, **PULL_REQUEST).notices if "`shiny`" in each] == [
        (
            "The base branch has a newer version since the change branched off: plugin, which the package "
            "`shiny` with plugins of evalgate was installed from. The older version was used, because it is "
            "what is installed."
        )
    ]


ALWAYS = "def score(case, run):\n    return 1.0\n"


def rewrite(folder: Path, path: str, content: str | None) -> None:
    """Do what the user that owns a folder can, whatever the modes in it are; None: remove the file."""
    for place in (folder, *folder.rglob("*")):
        place.chmod(0o777 if place.is_dir() else 0o666)
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    if content is None:
        (folder / path).unlink()
    else:
        (folder / path).write_text(content)


@pytest.mark.parametrize(
    ("entry", "path", "content"),
    [
        ("metrics/refund.py:score", "metrics/refund.py", ALWAYS),
        ("metrics/refund.py:score", "helpers.py", HELPERS.replace("0.0", "1.0")),
        ("metrics/refund.py:score", "metrics/words.txt", "change"),
        ("metrics/refund.py:score", "helpers/__init__.py", HELPERS.replace("0.0", "1.0")),
        ("metrics/refund.py:score", "metrics/words.txt", None),
        ("pkg.metric:score", "pkg/metric.py", ALWAYS),
        ("pkg.metric:score", "pkg/inner.py", "LEVEL = 1.0\n"),
        ("pkg.metric:score", "pkg/__init__.py", None),
        ("own.metric:score", "src/own/rest.py", "LEVEL = 1.0\n"),
        ("metrics/refund.py:score", ".evalgate-digests.json", "{}"),
    ],
)
async def test_a_copy_that_an_agent_rewrites_gives_no_score(
    desk: Path, entry: str, path: str, content: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gate and agent are the same user here, so that no mode of a file stands between them."""
    write(desk, {"evalgate.json": rules(entry)})
    plan, written = plan_in(desk), custom_metric_code.write_metric_code

    def write_and_lose(code: MetricCode, folder: Path) -> str:
        digest = written(code, folder)
        rewrite(folder, path, content)
        return digest

    monkeypatch.setattr(custom_metric_process, "write_metric_code", write_and_lose)
    value, reason = await score(plan)
    assert value == "failed"
    assert f"{path} in the copy that it runs from is not what the gate read" in reason
    assert "runs as the same user" in reason


async def test_a_copy_that_is_rewritten_before_the_process_starts_again_gives_no_score(desk: Path) -> None:
    """An agent of the same user can also end the metric's process."""
    copies = "import os\nfrom pathlib import Path\nHOME = str(Path(__file__).parent)\n"
    metric = f"{copies}\ndef score(case, run):\n    return {{'score': 0.0, 'reason': f'{{os.getpid()}} {{HOME}}'}}\n"
    write(desk, {"evalgate.json": rules("own.py:score"), "own.py": metric})
    ours = plan_in(desk).suites[0].metrics[0].metric
    try:
        first = await ours.score(CASE, RUN)
        assert isinstance(first, MetricScore)
        process, home = first.reason.split(" ")
        rewrite(Path(home), "own.py", ALWAYS)
        os.kill(int(process), signal.SIGKILL)
        found = [await ours.score(CASE, RUN) for _ in range(3)]
    finally:
        await ours.aclose()  # type: ignore[attr-defined]
    assert all(isinstance(each, MetricFailure) for each in found)
    assert "own.py in the copy" in str(found[-1])


async def test_compiled_code_that_an_agent_puts_into_the_copy_is_not_run(
    desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(desk, {"evalgate.json": rules("pkg.metric:score")})
    plan, written = plan_in(desk), custom_metric_code.write_metric_code

    def write_and_compile(code: MetricCode, folder: Path) -> str:
        digest = written(code, folder)
        own = (folder / "pkg/metric.py").stat()
        rewrite(folder, "pkg/metric.py", ALWAYS)
        os.utime(folder / "pkg/metric.py", ns=(own.st_atime_ns, own.st_mtime_ns))
        compiled = Path(py_compile.compile(str(folder / "pkg/metric.py"), doraise=True) or "")
        data = bytearray(compiled.read_bytes())
        data[12:16] = own.st_size.to_bytes(4, "little")  # as of the file that stood there
        compiled.write_bytes(data)
        (folder / "pkg/metric.py").write_bytes(code.files["pkg/metric.py"])
        os.utime(folder / "pkg/metric.py", ns=(own.st_atime_ns, own.st_mtime_ns))
        return digest

    monkeypatch.setattr(custom_metric_process, "write_metric_code", write_and_compile)
    assert await score(plan) == (0.0, "")
