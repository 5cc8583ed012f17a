"""Options for the output of the results: reports, posts to pull requests, and servers that receive them."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from evalgate.cli.options import add_options, nonempty_option

if TYPE_CHECKING:
    from evalgate.ci.posting import PostOptions
    from evalgate.config.cli_overrides import Overrides
    from evalgate.redaction.live_redactor import LiveRedactor
    from evalgate.runner.notifications import Destinations
    from evalgate.runner.publish import PublishOptions

_Command = TypeVar("_Command", bound=Callable[..., object])

# --- reports ------------------------------------------------------------------------------------------------

html_page = click.option(
    "--html", is_flag=True, help="Write report.html as well, with the whole conversation of each case."
)

kept_results = click.option(
    "--keep-results",
    type=click.IntRange(min=0),
    metavar="N",
    help="Results of the newest runs to keep for `evalgate results`; 0 keeps none and removes none.  "
    "[default: 20; 0 where CI is set]",
)

detailed_results = click.option(
    "--print-detailed-results",
    "details",
    is_flag=True,
    help="Print every case, and a table of the invocations for each metric that fails.",
)

OWNER_REPORTS = ("adk", "adk-rs", "trpc", "orchestrate")

owner_reports = click.option(
    "--report",
    "reports",
    multiple=True,
    type=click.Choice(OWNER_REPORTS),
    help="Write the results as this tool writes its own, too.",
)


# --- the servers that a run is sent to ----------------------------------------------------------------------

_DESTINATIONS = (
    nonempty_option(
        "--otlp",
        metavar="URL",
        help="Send each score and the verdict to this OpenTelemetry endpoint (OTLP over HTTP); `env` takes "
        "the address from OTEL_EXPORTER_OTLP_ENDPOINT.",
    ),
    nonempty_option(
        "--webhook",
        envvar="EVALGATE_WEBHOOK",
        show_envvar=True,
        metavar="URL",
        help="Post the verdict to this address. It is hidden like a secret.",
    ),
    click.option(
        "--webhook-format",
        type=click.Choice(["json", "slack", "teams"]),
        default="json",
        show_default=True,
        help="Body of the webhook: documented JSON, or a message of Slack or Microsoft Teams.",
    ),
)


def add_destination_options(command: _Command) -> _Command:
    """Add `--otlp`, `--webhook` and `--webhook-format` to a command."""
    return add_options(command, _DESTINATIONS)


def _pop_destinations(options: dict[str, Any]) -> "Destinations | None":
    """Remove the options for servers from `options`. Return the destinations, or None if no option is given.

    Raises:
        InvalidInputError: an address or an environment variable is invalid.
    """
    otlp, webhook, form = (options.pop(name) for name in ("otlp", "webhook", "webhook_format"))
    if otlp is None and webhook is None:
        return None
    from evalgate.runner.notifications import resolve_destinations

    return resolve_destinations(otlp, os.environ, webhook=webhook, webhook_format=form)


# --- posts --------------------------------------------------------------------------------------------------

_POST_SETTINGS = (
    click.option("--check", is_flag=True, help="Create a check run with the failing cases as annotations."),
    click.option(
        "--name",
        default="evalgate",
        show_default=True,
        metavar="GATE",
        help="Name of the gate; each has its own comment and check run.",
    ),
    click.option(
        "--section",
        default="",
        metavar="LEG",
        help="Leg of a matrix; each has its own section in the gate's comment.",
    ),
    click.option(
        "--token-env",
        default="",
        metavar="NAME",
        help="Environment variable that holds the token.  [default: GITHUB_TOKEN; "
        "in GitLab CI EVALGATE_GITLAB_TOKEN, else GITLAB_TOKEN]",
    ),
    click.option(
        "--comment-author",
        default="github-actions[bot]",
        show_default=True,
        metavar="LOGIN",
        help="Account that the token belongs to, if it is not the workflow's. GitLab reports it itself.",
    ),
)
_COMMENT = click.option(
    "--comment", is_flag=True, help="Post the report as a comment under the pull or merge request."
)


def add_posting_options(command: _Command) -> _Command:
    """Add `--comment`, `--check` and the settings of posts, such as `--name`, to a command."""
    return _COMMENT(add_post_settings(command))


def add_post_settings(command: _Command) -> _Command:
    """Add `--check` and the settings of posts, such as `--name`, to a command."""
    return add_options(command, _POST_SETTINGS)


def pop_post_options(options: dict[str, Any]) -> "PostOptions | None":
    """Remove the options for posting from `options`. Return them, or None if nothing will be posted."""
    comment, author = options.pop("comment"), options.pop("comment_author")
    settings = {name: options.pop(name) for name in ("check", "name", "section", "token_env")}
    if not comment and not settings["check"]:
        return None
    from evalgate.ci.posting import PostOptions

    return PostOptions(comment=comment, author=author, **settings)


# --- all of them --------------------------------------------------------------------------------------------


def pop_publish_options(options: dict[str, Any], post_options: "PostOptions | None") -> "PublishOptions":
    """Remove the options for reports and servers from `options`, and return them with `post_options`.

    `post_options` is the result of `pop_post_options`. The caller gets it first, so that it can post an error
    of this function to the pull request.

    Raises:
        InvalidInputError: an address or an environment variable is invalid.
    """
    from evalgate.runner.publish import PublishOptions

    html, reports = options.pop("html"), tuple(options.pop("reports"))
    return PublishOptions(
        requested=(*reports, "html") if html else reports,
        keep_results=options.pop("keep_results", None),  # `merge` has no such option
        details=options.pop("details", False),  # `merge` has no such option
        destinations=_pop_destinations(options),
        post_options=post_options,
    )


def list_masks(overrides: "Overrides", destinations: "Destinations | None") -> tuple[str, ...]:
    """Return the texts to hide: the values of `--mask`, and the address of the webhook."""
    webhook = destinations.webhook if destinations else None
    return (*overrides.mask, webhook.url) if webhook else tuple(overrides.mask)


@contextmanager
def post_on_failure(posting: "PostOptions | None", redactor: "LiveRedactor") -> Iterator[None]:
    """Redact and print an error of the `with` block, and post to the pull request that there is no verdict.

    If `posting` is None, only redact the error and raise it: print and post nothing. Do the same for an
    interruption, because a newer run of the job usually follows it.

    Raises:
        PrintedError: the error was printed, and posted if possible.
    """
    from evalgate.core.errors import RunInterruptedError

    try:
        with redactor.redact_errors():
            yield
    except RunInterruptedError:
        raise
    except Exception as error:
        if posting is None:
            raise
        from evalgate.cli.error_output import print_and_post_error

        raise print_and_post_error(error, posting, redactor) from error
