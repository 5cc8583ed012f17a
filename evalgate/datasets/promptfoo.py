"""Configurations of promptfoo, converted to cases and checks.

An assertion without a counterpart is listed with its line. See docs/import-projects.md.
"""

import json
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import count, islice, product
from math import prod
from pathlib import Path

from evalgate.core.errors import InvalidInputError
from evalgate.core.formatting import join_first
from evalgate.core.frozen import frozen
from evalgate.core.types import CaseTurn, EvalCase, EvalSet, JsonObject, UserMessage
from evalgate.datasets.foreign_rows import is_chat, read_csv_rows
from evalgate.datasets.promptfoo_assertions import (
    AssertionContext,
    CarriedCheck,
    convert_assertions,
    merge_budgets,
)
from evalgate.datasets.promptfoo_values import NoCounterpartError, parse_csv_assertion, render_template
from evalgate.documents.config_file import ConfigDocument, read_config_document
from evalgate.system.files import read_input_text

_TOP_LEVEL = frozenset({"prompts", "providers", "targets"})
_TEST_KEYS = frozenset({"description", "vars", "assert", "options", "threshold", "metadata"})
# `provider` is the model that grades.
_OPTIONS = frozenset({"prefix", "suffix", "transform", "provider", "disableDefaultAsserts"})
_MOST_COMBINATIONS = 1000
_SHOWN_CASES = 3

Locate = Callable[[tuple[str | int, ...]], int]
"""Function that returns the line (1-based) of a value in a test, by its path of keys and indices."""


@frozen
class PromptfooTest:
    """One entry of `tests`, not yet checked."""

    values: Mapping[str, object]
    path: str
    """File that the test is in, as messages call it."""
    locate: Locate

    def describe_line(self, *location: str | int) -> str:
        """Return `file:line` of the value at a path of keys and indices in the test."""
        return f"{self.path}:{self.locate(location)}"


@frozen
class PromptfooProject:
    """The parts of a promptfoo configuration that evalgate can use, and sentences about all other parts."""

    eval_set: EvalSet
    providers: tuple[JsonObject, ...]
    """Providers as objects with `id`, and with `config` if the configuration has it."""
    checks: Mapping[str, JsonObject]
    """Checks of a thresholds file, by name."""
    lost: tuple[str, ...]
    """One sentence for each part that is not carried over, `file:line` first."""
    budgets: Mapping[str, JsonObject] = field(default_factory=dict)
    """Criteria of budgets (limits of cost or latency) in a thresholds file, by name."""
    case_rules: tuple[JsonObject, ...] = ()
    """Rules for the section `cases` of a thresholds file: lower budgets than in `budgets` for some cases."""


def read_promptfoo(path: Path, shown_as: str) -> PromptfooProject:
    """Read a promptfoo configuration, and the files of tests and prompts that it names.

    Raises:
        InvalidInputError: a file cannot be read, or is not a configuration of promptfoo.
    """
    document = read_config_document(path, shown_as)
    if not isinstance(document.value, Mapping) or not _TOP_LEVEL & {*document.value}:
        raise InvalidInputError(
            f"{shown_as}: is no project to take over: neither an eval set of Google ADK or tRPC-Agent-Go, "
            "`langgraph.json`, a DeepEval dataset nor a configuration of promptfoo, which has `prompts` and "
            "`providers`"
        )
    lost: list[str] = []
    prompt = _choose_prompt(document, path.parent, lost)
    default = document.value.get("defaultTest")
    defaults = default if isinstance(default, Mapping) else {}
    if default and not isinstance(default, Mapping):
        lost.append(
            f"{shown_as}:{document.find_position(('defaultTest',))[0]}: `defaultTest` in another file"
        )
    if "scenarios" in document.value:
        lost.append(f"{shown_as}:{document.find_position(('scenarios',))[0]}: `scenarios`")
    shared = _build_test(defaults, document, ("defaultTest",))
    found: list[tuple[EvalCase, Sequence[CarriedCheck]]] = []
    listed: set[str] = set()
    for number, test in enumerate(_iter_tests(document, path.parent, lost), 1):
        found += _convert_test(test, number, prompt, shared, path.parent, lost, listed)
    cases = _with_unique_ids([case for case, _ in found])
    checks = [each for _, each in found]
    ids = [case.eval_id for case in cases]
    limits = [{check.name: check.content for check in each if check.is_budget} for each in checks]
    budgets, rules = merge_budgets(ids, limits)
    lost += [
        f"{shown_as}: `{name}`: a budget limits every case, and some tests have none"
        for name in sorted({name for each in limits for name in each} - {*budgets})
    ]
    return PromptfooProject(
        EvalSet(path.name.partition(".")[0], tuple(cases), shown_as),
        tuple(_iter_providers(document.value)),
        _merge_checks(ids, checks),
        tuple(lost),
        budgets,
        tuple(rules),
    )


def _iter_providers(value: Mapping[str, object]) -> Iterator[JsonObject]:
    found = value.get("providers") or value.get("targets")
    for each in found if isinstance(found, list) else [found]:
        if isinstance(each, str):
            yield {"id": each}
        elif isinstance(each, Mapping) and isinstance(each.get("id"), str):
            yield {key: each[key] for key in ("id", "config") if key in each}
        elif isinstance(each, Mapping) and len(each) == 1:  # the short form, {id: {config: …}}
            ((name, options),) = each.items()
            yield {"id": str(name), **(options if isinstance(options, Mapping) else {})}


# --- prompts ------------------------------------------------------------------------------------------------


def _choose_prompt(document: ConfigDocument, folder: Path, lost: list[str]) -> str:
    """Return the template of the first prompt that can be read; "" if there is none.

    Sentences about unreadable and further prompts are added to `lost`.
    """
    value = document.value.get("prompts") if isinstance(document.value, Mapping) else None
    found: list[str] = []
    for at, each in enumerate(value if isinstance(value, list) else [value]):
        raw = (each.get("raw") or each.get("id")) if isinstance(each, Mapping) else each
        location = ("prompts", at) if isinstance(value, list) else ("prompts",)
        try:
            found += _read_prompts(raw, folder) if isinstance(raw, str) else []
        except NoCounterpartError as error:
            lost.append(f"{document.path}:{document.find_position(location)[0]}: {error}")
    if len(found) > 1:
        line = document.find_position(("prompts",))[0]
        lost.append(f"{document.path}:{line}: prompts 2 to {len(found)}: a gate runs one, the first")
    return found[0] if found else ""


def _read_prompts(raw: str, folder: Path) -> list[str]:
    name = raw.removeprefix("file://")
    is_file = raw.startswith("file://") or ("{{" not in raw and (folder / raw).is_file())
    if not is_file:
        return [raw]
    path = folder / name
    if path.suffix not in {".txt", ".md", ".json", ".j2"} or not path.is_file():
        raise NoCounterpartError(f"the prompt `{raw}`: only text and JSON files are read")
    text = read_input_text(path, name)
    if path.suffix == ".txt":
        return [each.strip() for each in re.split(r"^---$", text, flags=re.MULTILINE) if each.strip()]
    return [text.strip()]


def _render_message(prompt: str, variables: Mapping[str, object]) -> str:
    """Return the user's text: the rendered prompt, or the user's messages if the prompt is a chat.

    Messages of other roles in a chat are left out. If `prompt` is "", the text is the value of the only
    variable.

    Raises:
        NoCounterpartError: the prompt cannot be rendered, or a message of the user has other parts than
            texts. Also raised if `prompt` is "" and there are several variables or none.
    """
    if prompt:
        rendered = render_template(prompt, variables)
        try:
            chat = json.loads(rendered)
        except ValueError:
            return rendered
        if is_chat(chat):
            said = [_join_texts(each.get("content")) for each in chat if each.get("role") == "user"]
            return "\n\n".join(said)
        return rendered
    if len(variables) == 1:
        (value,) = variables.values()
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    raise NoCounterpartError("no prompt says what its variables become")


def _join_texts(content: object) -> str:
    """Return the content of a chat message as text, with the texts of several parts on separate lines.

    Raises:
        NoCounterpartError: a part is no text.
    """
    if content is None or isinstance(content, str):
        return content or ""
    parts = content if isinstance(content, list) else [content]
    texts = [each.get("text") if isinstance(each, Mapping) else None for each in parts]
    if not all(isinstance(each, str) for each in texts):
        raise NoCounterpartError("a message with parts that are no text")
    return "\n".join(map(str, texts))


# --- tests --------------------------------------------------------------------------------------------------


def _iter_tests(document: ConfigDocument, folder: Path, lost: list[str]) -> Iterator[PromptfooTest]:
    value = document.value.get("tests") if isinstance(document.value, Mapping) else None
    for at, each in enumerate(value if isinstance(value, list) else [value]):
        location = ("tests", at) if isinstance(value, list) else ("tests",)
        if isinstance(each, Mapping):
            yield _build_test(each, document, location)
        elif isinstance(each, str):
            try:
                yield from _read_tests(each, folder)
            except NoCounterpartError as error:
                lost.append(f"{document.path}:{document.find_position(location)[0]}: {error}")
        elif each is not None:
            lost.append(f"{document.path}:{document.find_position(location)[0]}: a test that is no object")


def _build_test(
    values: Mapping[str, object], document: ConfigDocument, prefix: tuple[str | int, ...]
) -> PromptfooTest:
    return PromptfooTest(
        values, document.path, lambda location: document.find_position((*prefix, *location))[0]
    )


def _read_tests(name: str, folder: Path) -> Iterator[PromptfooTest]:
    """Yield the tests in the files that `name` selects, such as `file://tests/*.yaml`.

    Raises:
        NoCounterpartError: a file is missing, or is neither CSV, YAML nor JSON.
    """
    pattern = name.removeprefix("file://")
    paths = sorted(folder.glob(pattern)) if "*" in pattern else [folder / pattern]
    for path in paths:
        shown_as = path.relative_to(folder).as_posix() if path.is_relative_to(folder) else pattern
        if path.suffix == ".csv" and path.is_file():
            yield from _read_csv_tests(path, shown_as)
        elif path.suffix in {".yaml", ".yml", ".json"} and path.is_file():
            found = read_config_document(path, shown_as)
            is_list = isinstance(found.value, list)
            for at, each in enumerate(found.value if isinstance(found.value, list) else [found.value]):
                if isinstance(each, Mapping):
                    yield _build_test(each, found, (at,) if is_list else ())
        else:
            raise NoCounterpartError(f"the tests in `{name}`: only CSV, YAML and JSON files here are read")


def _read_csv_tests(path: Path, shown_as: str) -> Iterator[PromptfooTest]:
    rows = read_csv_rows(path, shown_as)
    names = [name.strip() for name in next(rows, (1, []))[1]]
    for line, cells in rows:
        row = dict(zip(names, cells, strict=False))
        asserted = [
            parse_csv_assertion(text)
            for name, text in row.items()
            if name.startswith("__expected") and text.strip()
        ]
        variables = {name: text for name, text in row.items() if not name.startswith("__")}
        named = {"description": row["__description"]} if row.get("__description") else {}
        options = {name: row[f"__{name}"] for name in ("prefix", "suffix") if row.get(f"__{name}")}
        values = {**named, "vars": variables, "assert": asserted, "options": options}
        yield PromptfooTest(values, shown_as, lambda _, line=line: line)  # type: ignore[misc]


def _convert_test(
    test: PromptfooTest,
    number: int,
    prompt: str,
    shared: PromptfooTest,
    folder: Path,
    lost: list[str],
    listed: set[str],
) -> Iterator[tuple[EvalCase, Sequence[CarriedCheck]]]:
    """Yield a case with its checks for each combination of the test's variables.

    A combination without a message, or without checks, becomes no case. A test without a description is named
    by its `number`, from 1. `shared` is `defaultTest`. Sentences about losses are added to `lost`. A sentence
    about an assertion is also added to `listed`, and is left out if it is there already.
    """
    defaults = shared.values
    name = str(test.values.get("description") or f"test-{number}")
    options = {**_get_object(defaults, "options"), **_get_object(test.values, "options")}
    lost += _list_unread_keys(test, options, name)
    combinations, total = _list_combinations(
        {**_get_object(defaults, "vars"), **_get_object(test.values, "vars")}
    )
    lost += _list_left_out(test, name, total)
    without_case: dict[str, list[str]] = {}
    for at, variables in enumerate(combinations):
        case_id = name if len(combinations) == 1 else f"{name} {at + 1}"
        context = AssertionContext(variables, folder, "transform" in options, options.get("provider"))
        losses: list[str] = []
        checks = _convert_all_assertions(test, shared, name, context, losses)
        # Each loss is listed once: not for every combination, nor for every test if `defaultTest` has it.
        lost += [each for each in losses if each not in listed]
        listed.update(losses)
        if not checks:
            without_case.setdefault("no assertion is carried over, so there is no case", []).append(case_id)
            continue
        try:
            message = _render_message(prompt, variables)
        except NoCounterpartError as error:
            without_case.setdefault(str(error), []).append(case_id)
            continue
        text = f"{options.get('prefix') or ''}{message}{options.get('suffix') or ''}"
        yield _build_case(case_id, text, test.locate(())), checks
    for reason, ids in without_case.items():
        named = name if len(ids) == len(combinations) else join_first(ids, _SHOWN_CASES)
        lost.append(f"{test.describe_line()}: {named}: {reason}")


def _build_case(name: str, text: str, line: int) -> EvalCase:
    eval_id = re.sub(r"[^\w.-]+", "_", name).strip("_") or "test"
    return EvalCase(eval_id, (CaseTurn(UserMessage(text)),), line=line)


def _list_unread_keys(test: PromptfooTest, options: Mapping[str, object], name: str) -> list[str]:
    unread = [(key,) for key in sorted({*test.values} - _TEST_KEYS)]
    in_options = [("options", key) for key in sorted({*options} - _OPTIONS)]
    return [f"{test.describe_line(*path)}: {name}: `{'.'.join(path)}`" for path in [*unread, *in_options]]


def _get_object(values: Mapping[str, object], key: str) -> Mapping[str, object]:
    found = values.get(key)
    return found if isinstance(found, Mapping) else {}


def _list_left_out(test: PromptfooTest, name: str, total: int) -> list[str]:
    """Return a list with a sentence about the combinations beyond the first 1,000; [] if there are none."""
    if total <= _MOST_COMBINATIONS:
        return []
    left = f"{total - _MOST_COMBINATIONS:,} of its {total:,} combinations of variables"
    return [f"{test.describe_line()}: {name}: {left}: only the first {_MOST_COMBINATIONS:,} become cases"]


def _list_combinations(variables: Mapping[str, object]) -> tuple[list[Mapping[str, object]], int]:
    """Return the first 1,000 combinations of variables, and the number of all combinations.

    If the value of a variable is a list, a combination has one item of the list. promptfoo makes a test of
    each combination.
    """
    options = [value if isinstance(value, list) else [value] for value in variables.values()]
    chosen = islice(product(*options), _MOST_COMBINATIONS)
    return [dict(zip(variables, each, strict=True)) for each in chosen], prod(map(len, options))


def _with_unique_ids(cases: Sequence[EvalCase]) -> list[EvalCase]:
    found: dict[str, EvalCase] = {}
    for case in cases:
        name = _choose_free(case.eval_id, found)
        found[name] = replace(case, eval_id=name)
    return [*found.values()]


# --- assertions ---------------------------------------------------------------------------------------------


def _convert_all_assertions(
    test: PromptfooTest,
    shared: PromptfooTest,
    name: str,
    context: AssertionContext,
    lost: list[str],
) -> list[CarriedCheck]:
    """Return the checks for the assertions of `defaultTest` (`shared`) and of a test.

    Sentences about assertions without a counterpart are added to `lost`. `name` is the name of the test.
    """
    threshold = test.values.get("threshold", shared.values.get("threshold"))
    own = test.values.get("assert")
    own = own if isinstance(own, list) else []
    default = shared.values.get("assert")
    default = default if isinstance(default, list) else []
    if _get_object(test.values, "options").get("disableDefaultAsserts"):
        default = []

    def report_loss(path: Sequence[str | int], sentence: str) -> None:
        at = path[0] if path else None
        if isinstance(at, int) and at < len(default):
            lost.append(f"{shared.describe_line('assert', *path)}: defaultTest: {sentence}")
        elif isinstance(at, int):
            below = ("assert", at - len(default), *path[1:])
            lost.append(f"{test.describe_line(*below)}: {name}: {sentence}")
        else:
            lost.append(f"{test.describe_line()}: {name}: {sentence}")

    return list(convert_assertions([*default, *own], threshold, context, report_loss))


def _merge_checks(
    ids: Sequence[str], checks_of: Sequence[Sequence[CarriedCheck]]
) -> Mapping[str, JsonObject]:
    """Return the section `checks` as {unique name: check}; equal checks of several cases become one.

    `checks_of` has the checks of each case in `ids`; budgets among them are left out. The key `ids` of a
    check lists its cases, and is absent if the check is for all cases.
    """
    merged: dict[tuple[str, str], tuple[CarriedCheck, list[str]]] = {}
    for case_id, checks in zip(ids, checks_of, strict=True):
        for check in (each for each in checks if not each.is_budget):
            key = (check.name, json.dumps(check.content, sort_keys=True))
            merged.setdefault(key, (check, []))[1].append(case_id)
    found: dict[str, JsonObject] = {}
    for check, named in merged.values():
        of = list(dict.fromkeys(named))
        is_for_all = len(of) == len(ids)
        stem = check.name if is_for_all or len(of) > 1 else f"{of[0]}_{check.name}"
        name = _choose_free(re.sub(r"[^A-Za-z0-9_.-]+", "_", stem).lstrip("_.-") or "check", found)
        found[name] = {**({} if is_for_all else {"ids": of}), **check.content}
    return found


def _choose_free(name: str, taken: Container[str]) -> str:
    names = (name if number == 1 else f"{name}_{number}" for number in count(1))
    return next(each for each in names if each not in taken)
