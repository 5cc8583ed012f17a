"""Configurations of promptfoo, converted to cases with goals.

A goal is a keyword, an exact text, a tool call or a check for a judge: the assertions that evalgate can
decide for a single case. Every other assertion is listed with its line. See docs/import-projects.md.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

from evalgate.core.errors import InvalidInputError
from evalgate.core.frozen import frozen
from evalgate.core.types import CaseTurn, EvalCase, EvalSet, JsonObject, UserMessage
from evalgate.datasets.foreign_rows import is_chat, read_csv_rows
from evalgate.datasets.promptfoo_goals import GoalBuilder, NotCarriedError, render_template
from evalgate.documents.config_file import ConfigDocument, read_config_document
from evalgate.system.files import read_input_text

_CSV_TYPES = (
    "answer-relevance bleu classifier contains contains-all contains-any contains-html contains-json "
    "contains-sql contains-xml context-faithfulness context-recall context-relevance cost equals "
    "factuality g-eval gleu icontains icontains-all icontains-any is-html is-json is-refusal is-sql "
    "is-xml latency levenshtein meteor model-graded-closedqa model-graded-factuality moderation "
    "perplexity perplexity-score regex rouge-n ruby similar starts-with webhook word-count"
)
_CSV_ASSERTION = re.compile(
    rf"(not-)?({'|'.join(_CSV_TYPES.split())})(?:\(\d+(?:\.\d+)?\))?(?::(.*))?", re.DOTALL
)
_CODE = ("javascript:", "fn:", "eval:", "python:", "file://")
_LISTS = frozenset({"contains-all", "icontains-all", "contains-any", "icontains-any"})
_TOP_LEVEL = frozenset({"prompts", "providers", "targets"})
_TEST_KEYS = frozenset({"description", "vars", "assert", "options", "threshold", "metadata"})
_OPTIONS = frozenset({"prefix", "suffix", "transform", "provider"})  # `provider` is the model that grades
_MOST_COMBINATIONS = 1000

Locate = Callable[[tuple[str | int, ...]], int]
"""Returns the line of a value in a test, by its path of keys and indices."""


@frozen
class PromptfooTest:
    """One entry of `tests`, not yet checked."""

    values: Mapping[str, object]
    path: str
    """File that the test is in, as messages call it."""
    locate: Locate

    def describe_line(self, *location: str | int) -> str:
        """Return `file:line` of a value of the test."""
        return f"{self.path}:{self.locate(location)}"


@frozen
class PromptfooProject:
    """The content of a configuration, as far as evalgate can use it."""

    eval_set: EvalSet
    providers: tuple[JsonObject, ...]
    """Each with `id`, and `config` if it has one."""
    has_checks: bool
    """True if a judge is needed."""
    is_ordered: bool
    """True if a case expects tool calls in an order."""
    lost: tuple[str, ...]
    """One sentence for each part that is not carried over, `file:line` first."""


def read_promptfoo(path: Path, shown_as: str) -> PromptfooProject:
    """Read a configuration with the files of tests and prompts that it names.

    Raises:
        InvalidInputError: a file cannot be read, or is no configuration of promptfoo.
    """
    document = read_config_document(path, shown_as)
    if not isinstance(document.value, Mapping) or not _TOP_LEVEL & {*document.value}:
        raise InvalidInputError(
            f"{shown_as}: is no project to take over: neither `langgraph.json`, a DeepEval dataset nor a "
            "configuration of promptfoo, which has `prompts` and `providers`"
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
    cases: list[EvalCase] = []
    for number, test in enumerate(_iter_tests(document, path.parent, lost), 1):
        cases += _convert_test(test, number, prompt, defaults, document, lost)
    cases = _with_unique_ids(cases)
    goals = [goal for case in cases for goal in (case.journey.goals if case.journey else ())]
    return PromptfooProject(
        EvalSet(path.name.partition(".")[0], tuple(cases), shown_as),
        tuple(_iter_providers(document.value)),
        has_checks=any(goal.type == "check" for goal in goals),
        is_ordered=any(any(case.journey.order.values()) for case in cases if case.journey),
        lost=tuple(lost),
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
    """Return the template of the first prompt that can be read; "" if there is none."""
    value = document.value.get("prompts") if isinstance(document.value, Mapping) else None
    found: list[str] = []
    for at, each in enumerate(value if isinstance(value, list) else [value]):
        raw = (each.get("raw") or each.get("id")) if isinstance(each, Mapping) else each
        location = ("prompts", at) if isinstance(value, list) else ("prompts",)
        try:
            found += _read_prompts(raw, folder) if isinstance(raw, str) else []
        except NotCarriedError as error:
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
        raise NotCarriedError(f"the prompt `{raw}`: only text and JSON files are read")
    text = read_input_text(path, name)
    if path.suffix == ".txt":
        return [each.strip() for each in re.split(r"^---$", text, flags=re.MULTILINE) if each.strip()]
    return [text.strip()]


def _render_message(prompt: str, variables: Mapping[str, object]) -> str:
    """Return what the user says: the rendered prompt, or the user's messages if it is a chat."""
    if prompt:
        rendered = render_template(prompt, variables)
        try:
            chat = json.loads(rendered)
        except ValueError:
            return rendered
        if is_chat(chat):
            said = [str(each.get("content") or "") for each in chat if each.get("role") == "user"]
            return "\n\n".join(said)
        return rendered
    if len(variables) == 1:
        return str(next(iter(variables.values())))
    raise NotCarriedError("no prompt says what its variables become")


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
            except NotCarriedError as error:
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
    """Yield the tests of the files that a text such as `file://tests/*.yaml` names."""
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
            raise NotCarriedError(f"the tests in `{name}`: only CSV, YAML and JSON files here are read")


def _read_csv_tests(path: Path, shown_as: str) -> Iterator[PromptfooTest]:
    rows = read_csv_rows(path, shown_as)
    names = [name.strip() for name in next(rows, (1, []))[1]]
    for line, cells in rows:
        row = dict(zip(names, cells, strict=False))
        asserted = [
            _parse_csv_assertion(text)
            for name, text in row.items()
            if name.startswith("__expected") and text.strip()
        ]
        variables = {name: text for name, text in row.items() if not name.startswith("__")}
        named = {"description": row["__description"]} if row.get("__description") else {}
        options = {name: row[f"__{name}"] for name in ("prefix", "suffix") if row.get(f"__{name}")}
        values = {**named, "vars": variables, "assert": asserted, "options": options}
        yield PromptfooTest(values, shown_as, lambda _, line=line: line)  # type: ignore[misc]


def _parse_csv_assertion(text: str) -> JsonObject:
    """Parse a cell such as `contains-all: red, green`; a text without a type must be equal."""
    if text.startswith(("grade:", "llm-rubric:")):
        return {"type": "llm-rubric", "value": text.partition(":")[2].strip()}
    if text.startswith(_CODE):
        kind = "javascript" if text.startswith(("javascript:", "fn:", "eval:")) else "python"
        return {"type": kind, "value": text}
    match = _CSV_ASSERTION.fullmatch(text.strip())
    if match is None:
        return {"type": "equals", "value": text}
    value: object = (match[3] or "").strip()
    if match[2] in _LISTS:
        value = [each.strip() for each in str(value).split(",")]
    return {"type": f"{match[1] or ''}{match[2]}", "value": value}


def _convert_test(
    test: PromptfooTest,
    number: int,
    prompt: str,
    defaults: Mapping[str, object],
    document: ConfigDocument,
    lost: list[str],
) -> Iterator[EvalCase]:
    """Yield a case for each combination of the test's variables."""
    shared = _build_test(defaults, document, ("defaultTest",))
    name = str(test.values.get("description") or f"test-{number}")
    if test.values.get("threshold") is not None:
        lost.append(f"{test.describe_line('threshold')}: `threshold` of {name}: every goal must be reached")
    options = {**_get_object(defaults, "options"), **_get_object(test.values, "options")}
    has_transform = "transform" in options
    lost += _list_unread_keys(test, options, name)
    combinations = list(
        _iter_combinations({**_get_object(defaults, "vars"), **_get_object(test.values, "vars")})
    )
    for at, variables in enumerate(combinations):
        said_about: list[str] = [] if at else lost  # each loss once, not for every combination
        goals = GoalBuilder(variables, has_transform=has_transform)
        _add_assertions(goals, shared, "defaultTest", lost if number == 1 and not at else [])
        _add_assertions(goals, test, name, said_about)
        try:
            message = _render_message(prompt, variables)
            message = f"{options.get('prefix') or ''}{message}{options.get('suffix') or ''}"
        except NotCarriedError as error:
            lost.append(f"{test.describe_line()}: {name}: {error}")
            return
        journey = goals.build_journey(message)
        if not journey.goals:
            lost.append(f"{test.describe_line()}: {name}: no assertion is carried over, so there is no case")
            return
        case_id = name if len(combinations) == 1 else f"{name} {at + 1}"
        turns = (CaseTurn(UserMessage(message)),)
        yield EvalCase(_make_id(case_id), turns, journey=journey, line=test.locate(()))


def _list_unread_keys(test: PromptfooTest, options: Mapping[str, object], name: str) -> list[str]:
    unread = [(key,) for key in sorted({*test.values} - _TEST_KEYS)]
    in_options = [("options", key) for key in sorted({*options} - _OPTIONS)]
    return [f"{test.describe_line(*path)}: {name}: `{'.'.join(path)}`" for path in [*unread, *in_options]]


def _get_object(values: Mapping[str, object], key: str) -> Mapping[str, object]:
    found = values.get(key)
    return found if isinstance(found, Mapping) else {}


def _iter_combinations(variables: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """Yield the combinations of variables that are lists, as promptfoo expands them."""
    options = [value if isinstance(value, list) else [value] for value in variables.values()]
    for count, chosen in enumerate(product(*options)):
        if count < _MOST_COMBINATIONS:
            yield dict(zip(variables, chosen, strict=True))


def _make_id(name: str) -> str:
    return re.sub(r"[^\w.-]+", "_", name).strip("_") or "test"


def _with_unique_ids(cases: Sequence[EvalCase]) -> list[EvalCase]:
    taken: set[str] = set()
    found = []
    for case in cases:
        name, count = case.eval_id, 1
        while name in taken:
            count += 1
            name = f"{case.eval_id}_{count}"
        taken.add(name)
        found.append(replace(case, eval_id=name))
    return found


# --- assertions ---------------------------------------------------------------------------------------------


def _add_assertions(goals: GoalBuilder, test: PromptfooTest, name: str, lost: list[str]) -> None:
    asserted = test.values.get("assert")
    for at, each in enumerate(asserted if isinstance(asserted, list) else []):
        try:
            goals.add_assertion(each)
        except NotCarriedError as error:
            lost.append(f"{test.describe_line('assert', at)}: {name}: {error}")
