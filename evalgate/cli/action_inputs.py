"""Convert the inputs of the GitHub action to a command line.

GitHub passes the input `max-regression` as the environment variable `INPUT_MAX-REGRESSION`. The variable is
empty if the workflow does not set the input. The action does not insert inputs into its `args`, because a
backslash or a quotation mark in a value would change the command.
"""

import json
from collections.abc import Iterator, Mapping

from evalgate.core.did_you_mean import NEARLY_EQUAL, find_similar
from evalgate.core.errors import InvalidInputError, Problem

POSITIONAL = "eval-sets"
"""Input with one positional argument per line."""

REPEATED = ("env", "report")
"""Inputs with one option per word."""

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
"""Inputs that are one option of the same name."""

FLAGS = ("affected", "comment", "check", "report-only", "resume", "html", "print-detailed-results", "trace")
"""Inputs that are `true` or `false`. The options of the same names have no value."""

TOKEN = "token"  # noqa: S105  an input's name
"""Secret input that is never put on the command line: `--token-env=INPUT_TOKEN` is passed instead."""

LINES = ("mask", "env-file")
"""Inputs with one option per line."""

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


def read_masks(environ: Mapping[str, str]) -> list[str]:
    """Return the texts that the action's input `mask` asks to hide in all output."""
    return list(_split_lines(dict(_read_inputs(environ)).get("mask", "")))


def _split_lines(text: str) -> Iterator[str]:
    return filter(None, (line.strip() for line in text.splitlines()))


def _read_inputs(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield (name, value) of each input.

    Inputs are `INPUT_` variables, or values in the JSON object of a composite action.
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
