"""evalgate: did this change make the agent worse?

Importing the package does nothing and loads nothing; public names are resolved when they are first used.
"""

TYPE_CHECKING = False  # `typing` would be the only module that an import of the package loads

if TYPE_CHECKING:
    from evalgate.api.evaluation import evaluate as evaluate
    from evalgate.api.evaluation import evaluate_async as evaluate_async
    from evalgate.api.record import GateClosedError as GateClosedError
    from evalgate.api.record import Record as Record

__version__ = "1.0.0"

_PUBLIC_NAMES = {
    "GateClosedError": "evalgate.api.record",
    "Record": "evalgate.api.record",
    "evaluate": "evalgate.api.evaluation",
    "evaluate_async": "evalgate.api.evaluation",
}
"""Public name to the module that defines it."""


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    if name not in _PUBLIC_NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = globals()[name] = getattr(import_module(_PUBLIC_NAMES[name]), name)
    return found


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted([*_PUBLIC_NAMES, "__version__"])
