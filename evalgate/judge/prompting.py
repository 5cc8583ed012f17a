"""The prompts: one jinja2 file each in `prompts/`, which a user may replace by a file of their own."""

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from evalgate.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

_FOLDER = Path(__file__).with_name("prompts")


@dataclass(frozen=True, slots=True)
class Prompt:
    """A template."""

    source: str

    @property
    def version(self) -> str:
        """Changes whenever the template does."""
        return hashlib.sha256(self.source.encode()).hexdigest()[:12]

    def filled(self, **values: object) -> str:
        """The text that a model is sent. What `values` hold is text, never a template."""
        return _environment().from_string(self.source).render(**values)


@cache
def prompt(name: str) -> Prompt:
    """The prompt that comes with evalgate under that name."""
    return Prompt((_FOLDER / f"{name}.j2").read_text("utf-8"))


def prompt_of_user(path: Path, shown_as: str) -> Prompt:
    """The prompt in a user's own file.

    Raises:
        InvalidInput: it cannot be read, or is no template.
    """
    try:
        source = path.read_text("utf-8")
    except OSError as error:
        raise InvalidInput([Problem(shown_as, 0, 0, f"cannot be read: {error.strerror}")]) from None
    except UnicodeDecodeError:
        raise InvalidInput([Problem(shown_as, 0, 0, "is no UTF-8 text")]) from None
    return checked_prompt(source, shown_as)


def checked_prompt(source: str, shown_as: str) -> Prompt:
    """The prompt that a user wrote.

    Raises:
        InvalidInput: it is no template.
    """
    from jinja2 import TemplateSyntaxError

    try:
        _environment().parse(source)
    except TemplateSyntaxError as error:
        raise InvalidInput([Problem(shown_as, error.lineno, 1, f"is no template: {error.message}")]) from None
    return Prompt(source)


@cache
def _environment() -> "ImmutableSandboxedEnvironment":
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
