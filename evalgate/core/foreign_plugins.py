"""Load and call plugins of other packages, and turn their exceptions into errors that name the plugin."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from evalgate.core.case_objects import find_wrong_cases
from evalgate.core.errors import EvalgateError, InvalidInputError, Problem
from evalgate.core.protocols import AnyReporter, Document, EvalFormat, ReportsIgnoredKeys
from evalgate.core.sanitize import to_one_line
from evalgate.core.types import EvalSet

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_Built = TypeVar("_Built")
_QUOTED = 400  # most characters of another package's error message


def describe_error(error: BaseException) -> str:
    """Return the class and the message of an exception as one line of at most 400 characters."""
    return to_one_line(f"{type(error).__name__}: {error}", _QUOTED)


def index_entry_points(
    points: Iterable["EntryPoint"], family: str, own: Collection[str]
) -> Mapping[str, "EntryPoint"]:
    """Return the entry points by plugin name, in the order of `points`.

    `family` is the kind of these plugins, such as `metrics`, for messages.

    Raises:
        InvalidInputError: two packages provide different plugins of the same name, or a package provides a
            plugin with a name in `own`, the names of evalgate's own plugins.
    """
    found: dict[str, EntryPoint] = {}
    problems = []
    for point in points:
        if point.name in own:
            problems.append(
                f"the plugin `{point.name}` of {describe_package(point)} "
                f"has the name of one of evalgate's own {family}"
            )
        elif point.name in found and point.value != found[point.name].value:
            both = f"{describe_package(found[point.name])} and {describe_package(point)}"
            problems.append(f"the plugin `{point.name}` of evalgate's {family} is brought by both {both}")
        else:
            found[point.name] = point
    if problems:
        raise InvalidInputError("; ".join(problems) + ": uninstall one")
    return found


def load_entry_point(point: "EntryPoint") -> Any:
    """Return the object that the entry point names.

    Raises:
        InvalidInputError: the object cannot be loaded.
    """
    try:
        return point.load()
    except Exception as error:  # the code of another package may raise anything
        raise InvalidInputError(
            f"{describe_plugin(point)} cannot be loaded: {describe_error(error)}"
        ) from error


def describe_plugin(point: "EntryPoint") -> str:
    """Return a text for messages with the plugin's name and its package."""
    return f"the plugin `{point.name}` of {describe_package(point)}"


def describe_package(point: "EntryPoint") -> str:
    """Return a text for messages with the plugin's package, or with `module:name` if it is not known."""
    return f"the package `{point.dist.name}`" if point.dist else f"`{point.value}`"


def build_plugin(build: Callable[[], _Built], plugin: str) -> _Built:
    """Call `build`, a plugin's class or function, and return the plugin.

    `plugin` is the name of the plugin in error messages.

    Raises:
        EvalgateError: `build` raised this error.
        InvalidInputError: `build` raised any other exception.
    """
    with _blame(plugin, ""):
        return build()


@contextmanager
def _blame(plugin: str, path: str) -> Iterator[None]:
    try:
        yield
    except EvalgateError:
        raise
    except (Exception, SystemExit) as error:
        message = f"{plugin} cannot be used: {describe_error(error)}"
        raise InvalidInputError([Problem(path, 1 if path else 0, 1 if path else 0, message)]) from error


class ForeignFormat:
    """Wrapper around an eval-set format that another package provides, with the methods of `EvalFormat`.

    If the format raises an `EvalgateError`, the error is raised unchanged. Any other exception becomes an
    InvalidInputError that names the plugin.
    """

    def __init__(self, found: EvalFormat, plugin: str) -> None:
        self._format = found
        self._plugin = plugin
        if isinstance(found, ReportsIgnoredKeys):

            def find_ignored_keys(document: Document) -> list[tuple[str | int, ...]]:
                with _blame(plugin, document.path):
                    return list(found.find_ignored_keys(document))

            self.find_ignored_keys = find_ignored_keys

    def matches_document(self, document: Document) -> bool:
        """Return True if the document is of this format.

        Raises:
            EvalgateError: the plugin raised this error.
            InvalidInputError: the plugin raised any other exception.
        """
        with _blame(self._plugin, document.path):
            return self._format.matches_document(document)

    def read_eval_set(self, document: Document) -> EvalSet:
        """Return the eval set of a document.

        Raises:
            EvalgateError: the plugin raised this error, such as an InvalidInputError with every problem.
            InvalidInputError: the plugin raised any other exception, or returned a wrong object.
        """
        with _blame(self._plugin, document.path):
            found: object = self._format.read_eval_set(document)
        if not isinstance(found, EvalSet):
            wrong = [f"returned a {type(found).__name__} and no `EvalSet`"]
        else:
            wrong = [f"returned a wrong {each}" for each in find_wrong_cases(found.eval_set_id, found.cases)]
        if wrong or not isinstance(found, EvalSet):
            raise InvalidInputError(Problem(document.path, 1, 1, f"{self._plugin} {each}") for each in wrong)
        return found


def check_file_name(reporter: AnyReporter, taken: set[str], plugin: str) -> AnyReporter:
    """Check the file name of a reporter, add the name to `taken` and return the reporter.

    `taken` has the file names of other reporters. `plugin` is the name of the reporter in messages.

    Raises:
        InvalidInputError: the reporter has no file name, or the name is taken.
    """
    name: object = getattr(reporter, "file_name", None)
    if not isinstance(name, str) or not name:
        raise InvalidInputError(f"{plugin} has no text as its `file_name`, but {name!r}")
    if name in taken:
        raise InvalidInputError(f"{plugin} writes `{name}`, which is the file of another report: rename it")
    taken.add(name)
    return reporter
