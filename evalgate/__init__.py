"""evalgate: did this change make the agent worse?

Importing the package does nothing and loads nothing; public names are resolved when they are first used.
"""

TYPE_CHECKING = False  # `typing` would be the only module that an import of the package loads

if TYPE_CHECKING:
    from evalgate.api.evaluation import evaluate as evaluate
    from evalgate.api.evaluation import evaluate_async as evaluate_async
    from evalgate.api.record import GateClosedError as GateClosedError
    from evalgate.api.record import Outcome as Outcome
    from evalgate.api.record import Record as Record
    from evalgate.api.steps import compare as compare
    from evalgate.api.steps import decide as decide
    from evalgate.api.steps import load as load
    from evalgate.api.steps import render as render
    from evalgate.api.steps import run as run
    from evalgate.api.steps import score as score
    from evalgate.api.testing.project import ProjectEvaluator as ProjectEvaluator
    from evalgate.core.errors import EvalgateError as EvalgateError
    from evalgate.core.errors import InvalidInputError as InvalidInputError
    from evalgate.core.errors import Problem as Problem
    from evalgate.core.types import Baseline as Baseline
    from evalgate.core.types import CaseResult as CaseResult
    from evalgate.core.types import CaseTurn as CaseTurn
    from evalgate.core.types import EvalCase as EvalCase
    from evalgate.core.types import EvalSet as EvalSet
    from evalgate.core.types import Reply as Reply
    from evalgate.core.types import ToolCall as ToolCall
    from evalgate.core.types import ToolResult as ToolResult
    from evalgate.core.types import UserMessage as UserMessage
    from evalgate.core.types import Verdict as Verdict

__version__ = "1.0.0"

_PUBLIC_NAMES = {
    "Baseline": "core.types",
    "CaseResult": "core.types",
    "CaseTurn": "core.types",
    "EvalCase": "core.types",
    "EvalSet": "core.types",
    "EvalgateError": "core.errors",
    "GateClosedError": "api.record",
    "InvalidInputError": "core.errors",
    "Outcome": "api.record",
    "Problem": "core.errors",
    "ProjectEvaluator": "api.testing.project",
    "Record": "api.record",
    "Reply": "core.types",
    "ToolCall": "core.types",
    "ToolResult": "core.types",
    "UserMessage": "core.types",
    "Verdict": "core.types",
    "compare": "api.steps",
    "decide": "api.steps",
    "evaluate": "api.evaluation",
    "evaluate_async": "api.evaluation",
    "load": "api.steps",
    "render": "api.steps",
    "run": "api.steps",
    "score": "api.steps",
}
"""Module that defines each public name, by the public name. The modules are relative to this package."""

__all__ = [*_PUBLIC_NAMES]  # noqa: PLE0604  the names above, which no analysis of the text can see


def __getattr__(name: str) -> object:
    """Import a public name from its module at the first use, and return its value.

    Raises:
        AttributeError: the package has no such public name.
    """
    if name not in _PUBLIC_NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = globals()[name] = getattr(import_module(f"evalgate.{_PUBLIC_NAMES[name]}"), name)
    return found


def __dir__() -> list[str]:
    """Return the public names and `__version__`, sorted."""
    return sorted([*_PUBLIC_NAMES, "__version__"])
