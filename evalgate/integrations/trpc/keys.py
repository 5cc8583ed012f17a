"""Keys of tRPC-Agent-Go's files as Go reads them: in any case, and in the snake_case of the first files."""

from evalgate.documents.strict_json import as_sequence


def normalize_key(key: str) -> str:
    """Return `evalid` for `evalId`, `EvalID` and `eval_id`."""
    return key.replace("_", "").lower()


def match_spelling(value: object, location: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """Return `location`, a path of today's keys, in the spelling of the document `value`."""
    spelled: list[str | int] = []
    for part in location:
        if isinstance(part, str) and isinstance(value, dict):
            own = next((key for key in value if normalize_key(key) == normalize_key(part)), part)
            spelled.append(own)
            value = value.get(own)
        else:
            spelled.append(part)
            items = as_sequence(value)
            value = items[part] if items and isinstance(part, int) and part < len(items) else None
    return tuple(spelled)


def get_member(value: object, name: str) -> object:
    """Return the member of an object under any spelling of `name`, or None."""
    if not isinstance(value, dict):
        return None
    if name in value:
        return value[name]
    return next((each for key, each in value.items() if normalize_key(key) == normalize_key(name)), None)
