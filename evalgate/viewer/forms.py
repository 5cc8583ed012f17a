"""Reading the forms that a page sends."""

from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from evalgate.core.errors import InvalidInputError

if TYPE_CHECKING:
    from starlette.requests import Request

MOST_FIELDS = 20_000


def get_field(form: Mapping[str, tuple[str, ...]], name: str) -> str:
    """Return the first value of a field; "" if the form does not have it."""
    return form.get(name, ("",))[0]


async def read_form(request: "Request") -> Mapping[str, tuple[str, ...]]:
    """Return the fields of a form that was sent as POST: each name with its values, in their order.

    Line ends of a text area are CR LF, as browsers send them. The security middleware has limited the size
    and checked the CSRF token.

    Raises:
        InvalidInputError: the body is no form.
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
