"""Prompt templates in `prompts/`, and the fence around text that an agent wrote."""

import hashlib
import re
from collections.abc import Collection, Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.formatting import did_you_mean, join_quoted
from evalgate.core.frozen import frozen
from evalgate.system.files import read_text

if TYPE_CHECKING:
    from jinja2 import Template as CompiledTemplate
    from jinja2.nodes import Template
    from jinja2.sandbox import ImmutableSandboxedEnvironment


_DIGITS = 16


def compute_fence_mark(*texts: str) -> str:
    """Hexadecimal digits that none of the texts holds, always the same for the same texts.

    Whoever wrote the texts cannot close the fence: the mark depends on every character of them.
    """
    number = 0
    while True:
        found = hashlib.sha256("\0".join([str(number), *texts]).encode("utf-8", "replace")).hexdigest()
        mark = found[:_DIGITS]
        if not any(mark in text for text in texts):
            return mark
        number += 1


def indent_later_lines(text: str) -> str:
    """Return the text with blanks before each line but the first, so that none poses as a heading."""
    return "\n  ".join(text.splitlines())


_FOLDER = Path(__file__).with_name("prompts")
_MARK = "mark"
"""The variable that every prompt has: see `compute_fence_mark`."""


@frozen
class Prompt:
    """A template."""

    source: str

    @property
    def version(self) -> str:
        """Changes whenever the template does."""
        return hashlib.sha256(self.source.encode()).hexdigest()[:12]

    def render_text(self, **values: object) -> str:
        """The text that a model is sent. What `values` hold is text, never a template.

        `mark` is computed from them, so that lines with it part them from the prompt.
        """
        mark = compute_fence_mark(*map(str, values.values()))
        return _compile_template(self.source).render(**values, **{_MARK: mark})


@cache
def load_prompt(name: str) -> Prompt:
    """The prompt that comes with evalgate under that name."""
    return Prompt((_FOLDER / f"{name}.j2").read_text("utf-8"))


def list_prompt_variables(name: str) -> frozenset[str]:
    """What the prompt that comes with evalgate under that name is filled with."""
    from jinja2.meta import find_undeclared_variables

    return frozenset(find_undeclared_variables(_create_environment().parse(load_prompt(name).source)))


def read_user_prompt(path: Path, shown_as: str, variables: Collection[str]) -> Prompt:
    """The prompt in a user's own file, which will be filled with these variables.

    Raises:
        InvalidInputError: it cannot be read, is no template, or names other variables.
    """
    try:
        source = read_text(path)
    except OSError as error:
        raise InvalidInputError([Problem(shown_as, 0, 0, f"cannot be read: {error.strerror}")]) from None
    except UnicodeDecodeError:
        raise InvalidInputError([Problem(shown_as, 0, 0, "is no UTF-8 text")]) from None
    return parse_prompt(source, shown_as, variables)


def parse_prompt(source: str, shown_as: str, variables: Collection[str]) -> Prompt:
    """The prompt that a user wrote, which will be filled with these variables.

    Raises:
        InvalidInputError: it is no template, or names other variables.
    """
    from jinja2 import TemplateSyntaxError

    try:
        template = _create_environment().parse(source)
        _create_environment().compile(source)  # looks for the filters and tests that it names
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
    """Every variable that nothing fills, where it stands."""
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
    """Other files that it is made of, which are not read."""
    from jinja2 import nodes

    for found in template.find_all((nodes.Extends, nodes.Include, nodes.Import, nodes.FromImport)):
        yield Problem(shown_as, found.lineno, 1, "a prompt is one file: it cannot include, import or extend")


def find_template_variables(source: str) -> frozenset[str]:
    """What a template that a user wrote asks to be filled with.

    Raises:
        ValueError: it is none.
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
    """Sandboxed: the gate, which holds keys, fills in templates that a pull request may have changed."""
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    return ImmutableSandboxedEnvironment(
        autoescape=False,  # a prompt is no markup
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
