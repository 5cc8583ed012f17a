"""Send JSON to an address that a user names. Messages show only the host, as the rest may be secret."""

import gzip
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from email.message import Message
from http.client import HTTPException, InvalidURL, responses
from typing import IO
from urllib.parse import urlsplit

from evalgate.core.frozen import frozen
from evalgate.core.sanitize import to_one_line

_RETRIED = frozenset({408, 429, 502, 503, 504})
_ATTEMPTS = 3
_LONGEST_PAUSE_S = 5.0
_MAX_ANSWER = 64 * 1024
_LONGEST_QUOTE = 200


class HttpPostError(Exception):
    """The request failed. The message is one sentence without the path of the address."""


@frozen
class HttpTarget:
    """Address of a server, with headers, timeout and certificates for requests to it."""

    url: str
    headers: Mapping[str, str]
    timeout_s: float = 10.0
    """Longest time in seconds that one attempt waits for the server."""
    ca_file: str = ""
    """Path of a PEM file with the certificates to trust; "": the certificates of the system."""
    compress: bool = False
    """True: the body is compressed with gzip."""

    @property
    def host(self) -> str:
        """Return the host and port of the address, without user name and password, for messages."""
        return urlsplit(self.url).netloc.rpartition("@")[2]


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Handler that follows no redirect, because `urllib` would send a GET, and headers to another server."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        """Return None, which means that the redirect is not followed."""
        del req, fp, code, msg, headers, newurl


def post_json(target: HttpTarget, body: object) -> str:
    """Post a body as JSON, and return the text of the answer, at most its first 64 KiB.

    If the server is busy (status 408, 429, 502, 503 or 504) or cannot be reached, the request is sent up to
    three times, with pauses of at most five seconds. No redirect is followed.

    Raises:
        HttpPostError: the server refuses the request or cannot be reached, or the address is unusable.
    """
    data = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    headers = {"User-Agent": "evalgate", "Content-Type": "application/json", **target.headers}
    if target.compress:
        data, headers["Content-Encoding"] = gzip.compress(data, mtime=0), "gzip"
    attempt = 1
    while True:
        try:
            return _send_request(target, data, headers)
        except urllib.error.HTTPError as error:
            with error:
                if attempt == _ATTEMPTS or error.code not in _RETRIED:
                    raise HttpPostError(_describe_answer(target, error)) from None
                asked = str(error.headers.get("Retry-After", ""))
                pause_s = min(float(asked), _LONGEST_PAUSE_S) if asked.isdecimal() else float(attempt)
        except (ValueError, InvalidURL) as error:
            # The error's text would quote the address or header that cannot be sent.
            raise HttpPostError(f"the address or a header cannot be sent ({type(error).__name__})") from None
        except (OSError, HTTPException) as error:
            if attempt == _ATTEMPTS:
                reason = getattr(error, "reason", None) or str(error) or type(error).__name__
                sentence = f"{target.host} could not be reached: {to_one_line(str(reason), _LONGEST_QUOTE)}"
                raise HttpPostError(sentence) from None
            pause_s = float(attempt)
        time.sleep(pause_s)
        attempt += 1


def _send_request(target: HttpTarget, data: bytes, headers: Mapping[str, str]) -> str:
    context = ssl.create_default_context(cafile=target.ca_file or None)
    opener = urllib.request.build_opener(_NoRedirect, urllib.request.HTTPSHandler(context=context))
    # The caller accepts http and https only.
    request = urllib.request.Request(target.url, data, dict(headers), method="POST")  # noqa: S310
    with opener.open(request, timeout=target.timeout_s) as answer:
        content: bytes = answer.read(_MAX_ANSWER)
    return content.decode("utf-8", "replace")


def _describe_answer(target: HttpTarget, error: urllib.error.HTTPError) -> str:
    phrase = responses.get(error.code, "")
    try:
        quote = to_one_line(error.read(_MAX_ANSWER).decode("utf-8", "replace"), _LONGEST_QUOTE)
    except (OSError, HTTPException):
        quote = ""
    said = f": {quote}" if quote else ""
    return f"{target.host} answered {error.code} {phrase}".rstrip() + said
