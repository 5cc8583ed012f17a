"""Read the fields of the forms that pages send."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import parse_qsl

from evalgate.core.errors import InvalidInputError

if TYPE_CHECKING:
    from starlette.requests import Request

Form: TypeAlias = Mapping[str, Sequence[str]]
"""Fields of a form: maps the name of a field to its values."""
MOST_FIELDS = 20_000
_NUMBER = re.compile(r"[0-9]{1,6}")


class FormFields:
    """Fields of a form with nested parts, such as `t0.c1.name`: the name of the first turn's second call."""

    def __init__(self, form: Form) -> None:
        self._form = form

    def get(self, name: str) -> str:
        """Return the first value of the field `name`, with LF as its line ends; "" if there is none."""
        return normalize_lines(next(iter(self._form.get(name, ())), ""))

    def list_names(self, prefix: str) -> list[str]:
        """Return the names of the numbered parts that begin with `prefix`, sorted by number.

        For example, the prefix `t` may give `t0` and `t1`.
        """
        heads = {
            name.removeprefix(prefix).partition(".")[0] for name in self._form if name.startswith(prefix)
        }
        return [f"{prefix}{head}" for head in sorted(filter(_NUMBER.fullmatch, heads), key=int)]


def normalize_lines(text: str) -> str:
    """Return a text with LF as its line ends, as a text area of a browser has it."""
    # Browsers send every line end of a text area as CR LF.
    return text.replace("\r\n", "\n").replace("\r", "\n")


def get_field(form: Mapping[str, tuple[str, ...]], name: str) -> str:
    """Return the first value of a field; "" if the form does not have it."""
    return form.get(name, ("",))[0]


async def read_form(request: "Request") -> Mapping[str, tuple[str, ...]]:
    """Return the fields of a POST form: each name with its values, in the order of the form.

    Line ends of a text area are CR LF, as browsers send them. `SecurityMiddleware` has limited the size of
    the body and checked the CSRF token before.

    Raises:
        InvalidInputError: the body is not a form, or the form has too many fields.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind != "application/x-www-form-urlencoded":
        raise InvalidInputError("the request holds no form")
    try:
        pairs = parse_qsl(
            (await request.body()).decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MOST_FIELDS,
        )
    except ValueError as error:
        raise InvalidInputError(f"the form cannot be read: {error}") from None
    fields: dict[str, tuple[str, ...]] = {}
    for name, value in pairs:
        fields[name] = (*fields.get(name, ()), value)
    return fields
