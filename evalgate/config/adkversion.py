"""Releases of Google ADK whose scores can be asked for."""

NEWEST_ADK = (2, 13)


def parse_adk_version(text: str) -> tuple[int, int]:
    """(2, 3) for "2.3" or "2.3.0".

    Raises:
        ValueError: the text is not a release of Google ADK that evalgate knows.
    """
    try:
        major, minor = (int(part) for part in text.split(".")[:2])
    except ValueError:
        raise ValueError(f'must look like "2.3", not {text!r}') from None
    if not (2, 0) <= (major, minor) <= NEWEST_ADK:
        newest = ".".join(str(part) for part in NEWEST_ADK)
        raise ValueError(f'must be a release from "2.0" to "{newest}", not {text!r}')
    return major, minor
