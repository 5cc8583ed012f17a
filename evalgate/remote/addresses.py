"""Addresses of HTTP: what is one, and what stands below it."""

from urllib.parse import urlsplit


def is_address(text: str) -> bool:
    """Whether a text is an `http://` or `https://` address that something may listen at."""
    try:
        parts = urlsplit(text)
        is_one = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets without an IPv6 address, a port that is none
        return False
    return is_one and not any(map(str.isspace, text))


def below(url: str, path: str) -> str:
    """`path` added to that of `url`, whose query, if it has one, stays at the end."""
    parts = urlsplit(url)
    return parts._replace(path=parts.path.rstrip("/") + path).geturl()
