"""The pytest plugin `evalgate`: its options, its marker and its fixtures.

Every pytest run imports this module if evalgate is installed. Other modules of evalgate are imported only for
the option `--evalgate`, the ini key `evalgate`, or a fixture.
"""

import inspect
from types import FunctionType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from evalgate.api.record import Outcome
    from evalgate.api.testing.project import ProjectEvaluator

_OPTIONS = {
    "agent": ("KIND:WHAT", "agent that the cases are run with, as for `evalgate run --agent`"),
    "thresholds": ("FILE", "thresholds file; else that of the current folder, else that of the rootdir"),
    "baseline": ("BASELINE", "file or address of the baseline that is compared with"),
    "runs": ("N", "runs of each case, or `auto`"),
    "report": ("FOLDER", "folder to write the reports into, such as evalgate-report"),
}
"""By NAME: placeholder and help text of the option `--evalgate-NAME` and the ini key `evalgate_NAME`."""

_MARKER = (
    "evalgate(*eval_sets, **options): the function is the agent of these eval sets; if it takes `outcome`, "
    "it is called with the outcome of each case instead. The options are `agent`, `baseline`, `checks`, "
    "`concurrency`, `criteria`, `env`, `format`, `judge`, `runs`, `thresholds` and `timeout`, as of "
    "`evalgate.evaluate`."
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options `--evalgate…` and the ini keys `evalgate…`."""
    group = parser.getgroup("evalgate", "evaluation of LLM agents")
    group.addoption("--evalgate", action="store_true", help="collect eval sets and run their cases")
    parser.addini("evalgate", "collect eval sets and run their cases", type="bool", default=False)
    for name, (placeholder, text) in _OPTIONS.items():
        group.addoption(f"--evalgate-{name}", metavar=placeholder, help=text)
        parser.addini(f"evalgate_{name}", text, default="")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker and, if evaluations are on (`--evalgate`), the plugin that runs cases."""
    config.addinivalue_line("markers", _MARKER)
    if is_enabled(config):
        from evalgate.api.testing.session import register_session

        register_session(config)


def is_enabled(config: pytest.Config) -> bool:
    """Return True if evaluations are on: `--evalgate` or the ini key `evalgate` is set."""
    return bool(config.getoption("--evalgate") or config.getini("evalgate"))


def is_agent_function(collector: pytest.Collector, candidate: object) -> bool:
    """Return True if `candidate` is a module-level function that the marker `evalgate` makes an agent.

    A marked function with the argument `outcome` or `evalgate` is a test instead.
    """
    # Not `isinstance`, which reads `__class__`: a lazy proxy would then load its object, or raise an error.
    if type(candidate) is not FunctionType or not isinstance(collector, pytest.Module):
        return False
    if not any(mark.name == "evalgate" for mark in getattr(candidate, "pytestmark", ())):
        return False
    return not {"outcome", "evalgate"} & inspect.signature(candidate).parameters.keys()


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, obj: object) -> list[pytest.Item] | None:
    """Return [] for an agent function if evaluations are off, so that pytest does not collect it as a test.

    Return None for everything else.
    """
    return [] if not is_enabled(collector.config) and is_agent_function(collector, obj) else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Skip each test that has the marker and the argument `outcome`, but only if evaluations are off.

    Such a test needs a run of the agent.
    """
    if is_enabled(metafunc.config) or "outcome" not in metafunc.fixturenames:
        return
    if metafunc.definition.get_closest_marker("evalgate") is not None:
        skip = pytest.mark.skip(reason="needs --evalgate")
        metafunc.parametrize("outcome", [pytest.param(None, marks=skip, id="evalgate")], indirect=True)


@pytest.fixture
def outcome(request: Any) -> "Outcome":
    """Return the outcome of one case of the eval sets in `@pytest.mark.evalgate`.

    pytest calls the test once for each case. The test fails if an assertion fails, and also if the case does
    not meet its criteria.
    """
    from evalgate.api.testing.collection import get_outcome

    return get_outcome(request.node, getattr(request, "param", None))


@pytest.fixture
def evalgate(request: pytest.FixtureRequest) -> "ProjectEvaluator":
    """Return an object with methods `evaluate` and `evaluate_async`, which use the project's settings.

    These are the settings of the thresholds file and of the options `--evalgate-…`. The fixture also works
    without `--evalgate`.
    """
    from evalgate.api.testing.project import ProjectEvaluator

    return ProjectEvaluator.from_node(request.node)
