"""Load prompt templates of evalgate (`prompts/`) and of users, and fence off the agent's text in prompts."""

import hashlib
import re
from collections.abc import Collection, Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from evalgate.core.did_you_mean import did_you_mean
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.formatting import join_quoted
from evalgate.core.frozen import frozen
from evalgate.system.files import read_text

if TYPE_CHECKING:
    from jinja2 import Template as CompiledTemplate
    from jinja2.nodes import Template
    from jinja2.sandbox import ImmutableSandboxedEnvironment


_DIGITS = 16


def compute_fence_mark(*texts: str) -> str:
    """Compute a mark of 16 hexadecimal digits that is in none of the texts. Equal texts have equal marks.

    A prompt encloses the texts in lines with the mark. The author of a text cannot write a closing line into
    the text, because the mark depends on every character of the text.
    """
    number = 0
    while True:
        digest = hashlib.sha256("\0".join([str(number), *texts]).encode("utf-8", "replace")).hexdigest()
        mark = digest[:_DIGITS]
        if not any(mark in text for text in texts):
            return mark
        number += 1


def indent_later_lines(text: str) -> str:
    """Indent every line except the first by two spaces, so that no line of the text looks like a heading."""
    return "\n  ".join(text.splitlines())


_FOLDER = Path(__file__).with_name("prompts")
_MARK = "mark"
"""Name of the template variable with the mark of `compute_fence_mark`; every prompt may use it."""


@frozen
class Prompt:
    """A Jinja2 template of a prompt."""

    source: str

    @property
    def version(self) -> str:
        """Return a hash of the template: the first 12 hexadecimal digits of its SHA-256."""
        return hashlib.sha256(self.source.encode()).hexdigest()[:12]

    def render_text(self, **values: object) -> str:
        """Render the template with `values`, which are inserted as plain text and never parsed as templates.

        The template's variable `mark` is computed from the values. With lines that contain the mark, the
        template separates the values from the instructions.

        Raises:
            jinja2.TemplateError: the template uses a variable without a value, or breaks a rule of the
                sandbox.
        """
        mark = compute_fence_mark(*map(str, values.values()))
        # Compiled only once by our own cache: Jinja's cache holds only templates that a loader has read.
        return _compile_template(self.source).render(**values, **{_MARK: mark})


@cache
def load_prompt(name: str) -> Prompt:
    """Load evalgate's own prompt `prompts/NAME.j2`."""
    return Prompt((_FOLDER / f"{name}.j2").read_text("utf-8"))


def list_prompt_variables(name: str) -> frozenset[str]:
    """Return the names of all variables in evalgate's prompt `prompts/NAME.j2`, including `mark`."""
    from jinja2.meta import find_undeclared_variables

    return frozenset(find_undeclared_variables(_create_environment().parse(load_prompt(name).source)))


def read_user_prompt(path: Path, shown_as: str, variables: Collection[str]) -> Prompt:
    """Read a prompt from a user's file, and check it.

    `variables` are the names that the prompt may use besides `mark`. `shown_as` names the file in messages.

    Raises:
        InvalidInputError: the file cannot be read, is no template, uses other variables, or includes other
            files.
    """
    try:
        source = read_text(path)
    except OSError as error:
        raise InvalidInputError([Problem(shown_as, 0, 0, f"cannot be read: {error.strerror}")]) from None
    except UnicodeDecodeError:
        raise InvalidInputError([Problem(shown_as, 0, 0, "is no UTF-8 text")]) from None
    return parse_prompt(source, shown_as, variables)


def parse_prompt(source: str, shown_as: str, variables: Collection[str]) -> Prompt:
    """Check the source of a user's prompt, and return the prompt.

    `variables` are the names that the prompt may use besides `mark`. `shown_as` names the file in messages.

    Raises:
        InvalidInputError: the source is not a template, uses other variables, or includes other files.
    """
    from jinja2 import TemplateSyntaxError

    try:
        template = _create_environment().parse(source)
        _create_environment().compile(source)  # raises for unknown filters and tests, which parse() accepts
    except TemplateSyntaxError as error:
        raise InvalidInputError(
            [Problem(shown_as, error.lineno, 1, f"is no template: {error.message}")]
        ) from None
    problems = sorted(
        {*_find_unknown_variables(template, source, shown_as, variables), *_find_imports(template, shown_as)}
    )
    if problems:
        raise InvalidInputError(problems)
    return Prompt(source)


def _find_unknown_variables(
    template: "Template", source: str, shown_as: str, variables: Collection[str]
) -> Iterator[Problem]:
    """Yield a problem, with its position, for each use of a variable that is not in `variables`."""
    from jinja2 import nodes
    from jinja2.meta import find_undeclared_variables

    known = sorted({*variables, _MARK})
    unknown = find_undeclared_variables(template) - set(known)
    for found in template.find_all(nodes.Name):
        if found.name in unknown:
            column = re.search(rf"\b{re.escape(found.name)}\b", source.split("\n")[found.lineno - 1])
            hint = did_you_mean(found.name, known) or f" Known here: {join_quoted(known)}."
            sentence = f"`{found.name}` is no variable of this prompt.{hint}"
            yield Problem(shown_as, found.lineno, column.start() + 1 if column else 1, sentence)


def _find_imports(template: "Template", shown_as: str) -> Iterator[Problem]:
    """Yield a problem for each tag that includes, imports or extends another file."""
    from jinja2 import nodes

    for found in template.find_all((nodes.Extends, nodes.Include, nodes.Import, nodes.FromImport)):
        yield Problem(shown_as, found.lineno, 1, "a prompt is one file: it cannot include, import or extend")


def find_template_variables(source: str) -> frozenset[str]:
    """Return the names of the variables that a user's template uses.

    Raises:
        ValueError: the source is not a template.
    """
    from jinja2 import TemplateSyntaxError
    from jinja2.meta import find_undeclared_variables

    try:
        return frozenset(find_undeclared_variables(_create_environment().parse(source)))
    except TemplateSyntaxError as error:
        raise ValueError(f"is no template: {error.message}, in its line {error.lineno}") from None


@lru_cache(maxsize=256)
def _compile_template(source: str) -> "CompiledTemplate":
    return _create_environment().from_string(source)


@cache
def _create_environment() -> "ImmutableSandboxedEnvironment":
    """Return the Jinja2 environment of all prompts.

    The environment is a sandbox, because a pull request may change a template, and the process that renders
    it holds keys.
    """
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    return ImmutableSandboxedEnvironment(
        autoescape=False,  # a prompt is no markup
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
