"""Send a finished run to other systems. A failure never changes the verdict: it becomes a notice."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from evalgate.core.errors import InvalidInputError
from evalgate.core.frozen import frozen
from evalgate.core.types import Record
from evalgate.reporting.evaluation_events import iter_requests
from evalgate.reporting.webhook_payload import WebhookFormat, build_payload
from evalgate.system.git import read_branch, read_commit
from evalgate.system.http_post import HttpPostError, HttpTarget, post_json

FROM_ENVIRONMENT = "env"
"""Value of `--otlp` that stands for the address in OpenTelemetry's environment variables."""
_LOGS_PATH = "/v1/logs"
_LOGS_VARIABLE = "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT"
_BASE_VARIABLE = "OTEL_EXPORTER_OTLP_ENDPOINT"
_HEADERS_VARIABLE = "OTEL_EXPORTER_OTLP_HEADERS"
_DEFAULT_TIMEOUT_MS = 10_000


@frozen
class Destinations:
    """Receivers of a run's results, with addresses that were checked before the run."""

    otlp: HttpTarget | None = None
    """Receiver of OpenTelemetry events."""
    resource: Mapping[str, str] = field(default_factory=dict)
    """OpenTelemetry resource attributes of the events, from the environment."""
    webhook: HttpTarget | None = None
    """Receiver of one message about the run."""
    webhook_format: WebhookFormat = "json"


def resolve_destinations(
    otlp: str | None,
    environ: Mapping[str, str],
    *,
    webhook: str | None = None,
    webhook_format: WebhookFormat = "json",
) -> Destinations:
    """Check the addresses of the command line, and read further OTLP settings from the environment.

    `otlp` is the value of `--otlp`: an address, or `env` to take the address from OpenTelemetry's variables.
    `webhook` is the address of `--webhook`. None stands for an option that was not given.

    Raises:
        InvalidInputError: an address is not an http or https address, or a variable is missing or wrong.
    """
    target, resource = None, {}
    if otlp is not None:
        target, resource = _build_otlp_target(otlp, environ), _read_resource(environ)
    if webhook is not None:
        _check_url("--webhook", webhook)
    receiver = None if webhook is None else HttpTarget(webhook, {})
    return Destinations(target, resource, receiver, webhook_format)


def send_record(
    record: Record, destinations: Destinations, folder: Path, environ: Mapping[str, str]
) -> Iterator[str]:
    """Send a redacted record to every destination, and yield a notice for each failure.

    The record is sent only while the caller iterates over the notices. The record of a shard is not sent,
    because `evalgate merge` sends the whole run. The commit and branch that are sent are read from git in
    `folder`, or from the variables of the CI service in `environ`.
    """
    if record.shard is not None:
        return
    commit, branch = read_commit(folder, environ) or "", read_branch(folder, environ) or ""
    if destinations.otlp is not None:
        known = {"vcs.ref.head.revision": commit, "vcs.ref.head.name": branch}
        yield from _send_events(record, destinations.otlp, {**known, **destinations.resource})
    if destinations.webhook is not None:
        url, form = _find_job_address(environ), destinations.webhook_format
        try:
            post_json(
                destinations.webhook, build_payload(record, form, commit=commit, branch=branch, url=url)
            )
        except HttpPostError as error:
            yield f"The webhook was not told of the verdict: {error}. The verdict stands."


def _find_job_address(environ: Mapping[str, str]) -> str:
    """Return the address of the run on GitHub, or of the job in GitLab CI; "" elsewhere."""
    server, name = environ.get("GITHUB_SERVER_URL"), environ.get("GITHUB_REPOSITORY")
    number = environ.get("GITHUB_RUN_ID")
    if server and name and number:
        return f"{server}/{name}/actions/runs/{number}"
    return environ.get("CI_JOB_URL", "")


def _send_events(record: Record, target: HttpTarget, resource: Mapping[str, str]) -> Iterator[str]:
    for body in iter_requests(record, {key: value for key, value in resource.items() if value}):
        try:
            answer = post_json(target, body)
        except HttpPostError as error:
            yield f"Not all results were sent to OpenTelemetry: {error}. The verdict stands."
            return
        if rejected := _read_rejection(answer):
            yield f"{target.host} did not take all OpenTelemetry events: {rejected}. The verdict stands."


def _read_rejection(answer: str) -> str:
    """Return the number of events that a receiver rejected, and the receiver's reason, as text.

    `answer` is the body of the response. Return "" if the receiver accepted all events.
    """
    try:
        partial = json.loads(answer or "{}").get("partialSuccess") or {}
        count = int(partial.get("rejectedLogRecords") or 0)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return ""
    return f"{count} rejected ({partial.get('errorMessage') or 'no reason given'})" if count else ""


def _build_otlp_target(otlp: str, environ: Mapping[str, str]) -> HttpTarget:
    url = otlp
    if otlp == FROM_ENVIRONMENT:
        url = environ.get(_LOGS_VARIABLE, "").strip() or environ.get(_BASE_VARIABLE, "").strip()
        if not url:
            raise InvalidInputError(f"`--otlp env` needs the variable {_BASE_VARIABLE} or {_LOGS_VARIABLE}")
    _check_url("--otlp", url)
    # The variable for logs holds the whole address; the variable for all signals holds the base address.
    is_whole = otlp == FROM_ENVIRONMENT and bool(environ.get(_LOGS_VARIABLE, "").strip())
    if not is_whole:
        parts = urlsplit(url)
        base = parts.path.rstrip("/").removesuffix(_LOGS_PATH)
        url = parts._replace(path=f"{base}{_LOGS_PATH}").geturl()
    return HttpTarget(
        url,
        dict(_parse_pairs(_HEADERS_VARIABLE, _read_setting(_HEADERS_VARIABLE, environ))),
        timeout_s=_read_timeout(environ),
        ca_file=_read_ca_file(environ),
        compress=_read_setting("OTEL_EXPORTER_OTLP_COMPRESSION", environ) == "gzip",
    )


def _read_setting(name: str, environ: Mapping[str, str]) -> str:
    """Return an OpenTelemetry setting: the value of its variable for logs, or else of the variable `name`.

    The variable for logs has the name `name` with `_OTLP_LOGS_` in place of `_OTLP_`. Return "" if neither
    variable is set.
    """
    own = name.replace("_OTLP_", "_OTLP_LOGS_")
    return (environ.get(own) or environ.get(name) or "").strip()


def _parse_pairs(name: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield (key, value) for each pair of a text such as `key=value,key=value`; values are percent-decoded.

    Raises:
        InvalidInputError: a part is no pair. The message names `name`, the variable with the text.
    """
    for part in filter(None, map(str.strip, text.split(","))):
        key, sign, value = part.partition("=")
        if not sign or not key.strip():
            raise InvalidInputError(f"{name} must be pairs `key=value`, separated by commas")
        yield key.strip(), unquote(value.strip())


def _read_timeout(environ: Mapping[str, str]) -> float:
    text = _read_setting("OTEL_EXPORTER_OTLP_TIMEOUT", environ) or str(_DEFAULT_TIMEOUT_MS)
    if not text.isdecimal() or int(text) == 0:
        raise InvalidInputError("OTEL_EXPORTER_OTLP_TIMEOUT must be a number of milliseconds above 0")
    return int(text) / 1000


def _read_ca_file(environ: Mapping[str, str]) -> str:
    path = _read_setting("OTEL_EXPORTER_OTLP_CERTIFICATE", environ)
    if path and not Path(path).is_file():
        raise InvalidInputError(f"OTEL_EXPORTER_OTLP_CERTIFICATE names no file: {path}")
    return path


def _read_resource(environ: Mapping[str, str]) -> dict[str, str]:
    """Return OpenTelemetry's resource attributes from the environment.

    `service.name` is `evalgate`, unless a variable sets this attribute.

    Raises:
        InvalidInputError: the variable with the attributes has a wrong form.
    """
    named = dict(_parse_pairs("OTEL_RESOURCE_ATTRIBUTES", environ.get("OTEL_RESOURCE_ATTRIBUTES", "")))
    name = environ.get("OTEL_SERVICE_NAME", "").strip() or named.get("service.name") or "evalgate"
    return {**named, "service.name": name}


def _check_url(option: str, url: str) -> None:
    """Check that `url`, the value of `option`, is an http or https address with a host.

    Raises:
        InvalidInputError: `url` is no such address.
    """
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or not url.isprintable() or " " in url:
        raise InvalidInputError(f"`{option}` must be an address that begins with http:// or https://")
