"""Plugins of other packages, found through their entry points."""

import json
import subprocess
import sys
from importlib.metadata import EntryPoint
from io import StringIO
from pathlib import Path

import pytest

import evalgate as library
from evalgate.config.schema.thresholds import NEWEST_ADK, Config, Thresholds
from evalgate.core import plugin_registry
from evalgate.core import plugin_registry as thirdparty
from evalgate.core.errors import InvalidInputError
from evalgate.core.protocols import Metric, MetricContext, MetricEnvironment, StoreContext
from evalgate.core.types import CaseTurn, Criterion, EvalCase, EvalSet, Record, UserMessage
from evalgate.reporting.report_files import ReportWriteError
from evalgate.runner import metric_binding
from evalgate.runner.publish import Publisher
from evalgate.system.workspace import resolve_workspace
from tests.cli.test_cli import ROOT
from tests.commands import Done, evalgate

THRESHOLDS = """\
version: 1
eval_sets: pairs.json
agent: {kind: echo, prefix: "Thank you for asking:"}
criteria:
  politeness: 1.0
gate: {baseline: "memory:here"}
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample plugin, installed by pip in a folder of its own."""
    target = tmp_path_factory.mktemp("site")
    arguments = ["--quiet", "--disable-pip-version-check", "--no-deps"]
    source = tmp_path_factory.mktemp("source") / "plugin"
    subprocess.run(["cp", "-r", str(ROOT / "samples/plugin"), str(source)], check=True)
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *arguments, "--target", str(target), str(source)], check=True
    )
    return target


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pairs.json").write_text(json.dumps({"pairs": [{"q": "Why?", "a": "Because."}]}))
    (tmp_path / "evalgate.yaml").write_text(THRESHOLDS)
    return tmp_path


def gated(project: Path, installed: Path, *arguments: str) -> Done:
    return evalgate("run", *arguments, cwd=project, PYTHONPATH=str(installed))


@pytest.mark.slow
def test_an_installed_package_brings_every_kind_of_plugin(project: Path, installed: Path) -> None:
    good = gated(project, installed)
    assert good.code == 0, good.out + good.err
    assert "memory:here" in good.out + good.err  # the store of that kind holds no baseline yet
    report = (project / "evalgate-report/cases.csv").read_text()
    assert report == "eval_set_id,eval_id,status\npairs.json,pair_1,passed\n"

    rude = gated(project, installed, "--agent", "echo:Well,")
    assert rude.code == 1, rude.out + rude.err
    assert "politeness is 0.00, below its threshold 1.00." in rude.out


@pytest.mark.slow
def test_a_wrong_option_of_another_packages_metric_is_an_error_at_its_line(
    project: Path, installed: Path
) -> None:
    text = THRESHOLDS.replace("politeness: 1.0", "politeness: {threshold: 1.0, word: [hm]}")
    (project / "evalgate.yaml").write_text(text)

    done = gated(project, installed)

    assert done.code == 2
    assert "evalgate.yaml:5:" in done.err
    assert "`criteria.politeness.word` is not a known key" in done.err


def test_without_the_package_its_names_are_unknown(project: Path) -> None:
    done = evalgate("run", "--agent", "python:agent.py:answer", cwd=project)
    assert done.code == 2
    assert "pairs.json:1:1: this is no eval set of a format that evalgate knows" in done.err

    done = evalgate("run", cwd=project)
    assert done.code == 2
    assert "`echo` is not a kind of agent." in done.err


@pytest.fixture
def bring(monkeypatch: pytest.MonkeyPatch) -> list[EntryPoint]:
    points: list[EntryPoint] = []
    monkeypatch.setattr(thirdparty, "list_entry_points", lambda family: tuple(points))
    return points


def test_a_name_of_our_own_is_refused(bring: list[EntryPoint]) -> None:
    bring.append(EntryPoint("adk", "other.module:Adk", "evalgate.formats"))

    with pytest.raises(
        InvalidInputError, match=r"`adk` of `other.module:Adk` has the name of one of evalgate's own"
    ):
        list(plugin_registry.get_formats())


def test_two_packages_must_not_bring_the_same_name(bring: list[EntryPoint]) -> None:
    bring += [EntryPoint("csv", f"{name}:Csv", "evalgate.reporters") for name in ("one", "two")]

    with pytest.raises(InvalidInputError, match="brought by both `one:Csv` and `two:Csv`"):
        plugin_registry.get_reporters()


def test_a_plugin_that_cannot_be_loaded_is_named(bring: list[EntryPoint]) -> None:
    bring.append(EntryPoint("csv", "nowhere.at_all:Csv", "evalgate.reporters"))

    with pytest.raises(
        InvalidInputError, match="cannot be loaded: ModuleNotFoundError: No module named 'nowhere'"
    ):
        plugin_registry.get_reporters()


class Broken:
    """A plugin of every family whose author has a bug."""

    def __init__(self, *words: object) -> None:
        if words:
            raise RuntimeError(f"no luck with {words[0]}")

    @classmethod
    def build(cls, criterion: Criterion, context: object) -> Metric:
        raise KeyError(criterion.metric)


class Report:
    """A reporter of another package, with a name and a text as a test wants them."""

    file_name: object = "mine.txt"
    error: type[BaseException] | None = None

    def render(self, record: Record) -> object:
        if self.error:
            raise self.error("no luck")
        return record.cases[0].eval_id  # there is always a case: evalgate renders no empty record


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "results.json",
            r"`mine` of `.*:Report` writes `results\.json`, which is the file of another report",
        ),
        ("report.html", "which is the file of another report"),
        ("", "has no text as its `file_name`, but ''"),
        (None, "has no text as its `file_name`, but None"),
    ],
)
def test_a_reporter_has_a_file_of_its_own(
    bring: list[EntryPoint], monkeypatch: pytest.MonkeyPatch, name: object, message: str
) -> None:
    bring.append(EntryPoint("mine", f"{__name__}:Report", "evalgate.reporters"))
    assert plugin_registry.get_reporters()[-1].file_name == "mine.txt"
    monkeypatch.setattr(Report, "file_name", name)
    with pytest.raises(InvalidInputError, match=message):
        plugin_registry.get_reporters()


def test_two_packages_must_not_write_the_same_file(bring: list[EntryPoint]) -> None:
    bring += [EntryPoint(name, f"{__name__}:Report", "evalgate.reporters") for name in ("mine", "other")]
    with pytest.raises(InvalidInputError, match=r"plugin `other` of .* writes `mine.txt`"):
        plugin_registry.get_reporters()


@pytest.mark.parametrize("error", [KeyError, SystemExit])
def test_a_reporter_that_fails_stops_no_other(
    bring: list[EntryPoint], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: type[BaseException]
) -> None:
    bring.append(EntryPoint("mine", f"{__name__}:Report", "evalgate.reporters"))
    record = library.evaluate(
        [{"query": "Hi", "reference": "Hi"}], lambda text: text, criteria={"response_match_score": 1.0}
    )
    files = record.write(tmp_path / "good")
    assert files[-1].read_text() == record.cases[0].eval_id
    monkeypatch.setattr(Report, "error", error)
    with pytest.raises(
        ReportWriteError, match=rf"mine\.txt: the plugin `.*:Report` cannot be used: {error.__name__}: "
    ) as caught:
        record.write(tmp_path / "bad")
    assert [file.name for file in caught.value.written] == [file.name for file in files[:-1]]


def test_a_run_renders_no_empty_record_with_a_plugin(bring: list[EntryPoint], tmp_path: Path) -> None:
    bring.append(EntryPoint("mine", f"{__name__}:Report", "evalgate.reporters"))
    Publisher(resolve_workspace(tmp_path), "report", {}, StringIO(), StringIO()).preload_reporting()


class Format:
    """A format of another package that fails in one of its methods, or returns a wrong object."""

    fault: object = None

    def matches_document(self, document: object) -> bool:
        if self.fault == "match":
            raise KeyError("pairs")
        return True

    def read_eval_set(self, document: object) -> object:
        if self.fault == "read":
            raise KeyError("pairs")
        return self.fault


TURNS = (CaseTurn(UserMessage("Hi")),)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("match", "cannot be used: KeyError: 'pairs'"),
        ("read", "cannot be used: KeyError: 'pairs'"),
        (None, "returned a NoneType and no `EvalSet`"),
        (
            EvalSet("s", (EvalCase("a", TURNS),) * 2),
            "returned a wrong eval set 's': 'a' is the id of several cases",
        ),
    ],
)
def test_a_fault_of_a_format_is_told_as_its_own(
    bring: list[EntryPoint], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fault: object, message: str
) -> None:
    bring.append(EntryPoint("pairs", f"{__name__}:Format", "evalgate.formats"))
    (tmp_path / "a.json").write_text('{"pairs": []}')
    monkeypatch.setattr(Format, "fault", fault)
    with pytest.raises(InvalidInputError) as caught:
        library.load("a.json", folder=tmp_path)
    assert str(caught.value).startswith(f"a.json:1:1: the plugin `pairs` of `{__name__}:Format` {message}")


def rules_with(metric: str) -> Thresholds:
    return Thresholds(
        Config(), Path(), "evalgate.yaml", criteria=(Criterion(metric, 1.0),), find_position=lambda _: (5, 3)
    )


def test_a_metric_of_another_package_that_cannot_be_made_is_named_at_its_line(
    bring: list[EntryPoint],
) -> None:
    bring.append(EntryPoint("shiny", f"{__name__}:Broken", "evalgate.metrics"))

    with pytest.raises(InvalidInputError) as raised:
        metric_binding.bind_metrics(
            rules_with("shiny"), MetricContext(NEWEST_ADK), MetricEnvironment(Path(), {})
        )

    assert str(raised.value) == (
        f"evalgate.yaml:5:3: `criteria.shiny`: the plugin `shiny` of `{__name__}:Broken` cannot be used: "
        "KeyError: 'shiny'"
    )


def test_a_metric_of_our_own_that_cannot_be_made_is_our_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin_registry, "METRICS", {"shiny": f"{__name__}:Broken"})

    with pytest.raises(KeyError):
        metric_binding.bind_metrics(
            rules_with("shiny"), MetricContext(NEWEST_ADK), MetricEnvironment(Path(), {})
        )


def test_a_baseline_of_another_package_that_cannot_be_made_is_named(bring: list[EntryPoint]) -> None:
    bring.append(EntryPoint("cloud", f"{__name__}:Broken", "evalgate.baselines"))

    with pytest.raises(InvalidInputError, match=r"baseline cloud:x: the plugin `cloud` of .* no luck with x"):
        plugin_registry.resolve_baseline_store("cloud:x", StoreContext(Path()))


def test_what_we_have_ourselves_is_found_without_looking_through_packages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(family: object) -> None:
        raise AssertionError(f"looked for {family}")

    monkeypatch.setattr(thirdparty, "list_entry_points", never)

    assert plugin_registry.get_formats()["adk"]
    assert next(iter(plugin_registry.get_formats().values()))
    assert metric_binding.build_final_state_metric()
