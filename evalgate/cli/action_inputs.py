"""Convert the inputs of the GitHub action to a command line.

GitHub passes the input `max-regression` as the environment variable `INPUT_MAX-REGRESSION`. The variable is
empty if the workflow does not set the input. The action does not insert inputs into its `args`, because a
backslash or a quotation mark in a value would change the command.
"""

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import click

from evalgate.core.did_you_mean import NEARLY_EQUAL, find_similar
from evalgate.core.errors import InvalidInputError, Problem

if TYPE_CHECKING:
    from evalgate.ci.posting import PostOptions

POSITIONAL = "eval-sets"
"""Input in which each line is a positional argument."""

REPEATED = ("env", "report")
"""Inputs in which each word becomes the value of an option with the input's name."""

OPTIONS = (
    "agent",
    "thresholds",
    "runs",
    "workers",
    "executor",
    "ray-address",
    "concurrency",
    "timeout",
    "base",
    "baseline",
    "max-regression",
    "policy",
    "control",
    "adk-version",
    "judge",
    "judge-cache",
    "simulated-user",
    "setup",
    "python",
    "format",
    "initial-session",
    "app-name",
    "user-id",
    "name",
    "section",
    "comment-author",
    "shard",
    "keep-results",
    "out",
    "otlp",
    "webhook",
    "webhook-format",
    "working-directory",
)
"""Inputs that become one option of the same name."""

FLAGS = ("affected", "comment", "check", "report-only", "resume", "html", "print-detailed-results", "trace")
"""Inputs that are `true` or `false`. The options of the same names have no value."""

TOKEN = "token"  # noqa: S105  an input's name
"""Secret input that is never put on the command line: `--token-env=INPUT_TOKEN` is passed instead."""

LINES = ("mask", "env-file")
"""Inputs in which each line becomes the value of an option with the input's name."""

INPUTS = (POSITIONAL, *OPTIONS, *REPEATED, *LINES, *FLAGS, TOKEN)

TOGETHER = "EVALGATE_INPUTS"
"""Environment variable with all inputs as one JSON object: the only form that a composite action can pass."""

_PREFIX = "INPUT_"
_RUNNERS_OWN = ("args", "entrypoint")


def build_arguments(environ: Mapping[str, str]) -> list[str]:
    """Return the arguments of `evalgate run` for the inputs of the action.

    `eval-sets`, `mask` and `env-file` have one value per line, so that a path may contain spaces. `env` and
    `report` have names separated by white space. Every other value is used unchanged, without surrounding
    white space. A variable that resembles no input is ignored, because it belongs to another program.

    Raises:
        InvalidInputError: a flag is neither `true` nor `false`, or the name of an input is misspelt. The
            runner only warns of misspelt inputs, and the gate would run without them.
    """
    inputs = dict(_read_inputs(environ))
    problems = tuple(_find_problems(inputs))
    if problems:
        raise InvalidInputError(problems)
    options = [f"--{name}={inputs[name]}" for name in OPTIONS if inputs.get(name)]
    repeated = [f"--{name}={word}" for name in REPEATED for word in inputs.get(name, "").split()]
    options += [f"--{name}" for name in FLAGS if inputs.get(name) == "true"]
    options += [f"--token-env={_PREFIX}{TOKEN.upper()}"] if inputs.get(TOKEN) else []
    repeated += [f"--{name}={line}" for name in LINES for line in _split_lines(inputs.get(name, ""))]
    return [*options, *repeated, "--", *_split_lines(inputs.get(POSITIONAL, ""))]


def parse_inputs(run: click.Command, parent: click.Context, environ: Mapping[str, str]) -> click.Context:
    """Parse the inputs of the action as options of the command `run`, and return the context to invoke it in.

    Raises:
        InvalidInputError, click.UsageError: an input is misspelt, or its value is not valid.
        PrintedError: raised instead of these errors if the inputs ask for a comment or a check. The error was
            printed, and posted if possible.
    """
    from evalgate.cli.publish_options import post_on_failure
    from evalgate.redaction.live_redactor import LiveRedactor
    from evalgate.redaction.redactor import SHORTEST_MASK

    # Masks that are too short are left out here. The command `run` reports them as an error.
    masks = [mask for mask in read_masks(environ) if len(mask) >= SHORTEST_MASK]
    with post_on_failure(_read_post_options(environ), LiveRedactor.from_environment(environ, masks)):
        return run.make_context("run", build_arguments(environ), parent=parent)


def _read_post_options(environ: Mapping[str, str]) -> "PostOptions | None":
    """Return the settings of the posts that the inputs ask for, or None if they ask for no post.

    Other inputs are not checked here: an error in one of them is posted later, with these settings.
    """
    from evalgate.ci.posting import ACTIONS_BOT, ONLY_GATE, PostOptions

    inputs = dict(_read_inputs(environ))
    comment, check = (inputs.get(name) == "true" for name in ("comment", "check"))
    if not comment and not check:
        return None
    return PostOptions(
        comment,
        check,
        inputs.get("name") or ONLY_GATE,
        inputs.get("section", ""),
        f"{_PREFIX}{TOKEN.upper()}" if inputs.get(TOKEN) else "",
        inputs.get("comment-author") or ACTIONS_BOT,
    )


def read_masks(environ: Mapping[str, str]) -> list[str]:
    """Return the texts that the action's input `mask` asks to hide in all output."""
    return list(_split_lines(dict(_read_inputs(environ)).get("mask", "")))


def _split_lines(text: str) -> Iterator[str]:
    return filter(None, (line.strip() for line in text.splitlines()))


def _read_inputs(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield (name in lower case, value) of each input of the action.

    Inputs are the variables `INPUT_...`, and the values in the JSON object in `EVALGATE_INPUTS`, which a
    composite action sets.
    """
    yield from (
        (name.removeprefix(_PREFIX).lower(), value.strip())
        for name, value in environ.items()
        if name.startswith(_PREFIX)
    )
    if TOGETHER in environ:
        together: Mapping[str, str] = json.loads(environ[TOGETHER])
        yield from ((name.lower(), str(value).strip()) for name, value in together.items())


def _find_problems(inputs: Mapping[str, str]) -> Iterator[Problem]:
    for name in inputs:
        if name in INPUTS or name in _RUNNERS_OWN:
            continue
        for meant in find_similar(name, INPUTS, cutoff=NEARLY_EQUAL):
            yield Problem("", 0, 0, f"the action has no input `{name}`; did you mean `{meant}`?")
    for name in FLAGS:
        if inputs.get(name, "") not in {"", "true", "false"}:
            yield Problem("", 0, 0, f"the action's input `{name}` must be `true` or `false`")
