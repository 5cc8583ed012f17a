"""Convert assertions of promptfoo to checks with the same meaning."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from evalgate.core.frozen import frozen
from evalgate.core.types import JsonObject
from evalgate.datasets.javascript_patterns import UnknownPatternError, translate_pattern
from evalgate.datasets.promptfoo_calls import convert_call_assertion
from evalgate.datasets.promptfoo_values import (
    NoCounterpartError,
    format_text,
    parse_list,
    read_schema,
    render_template,
)

_EMBEDDING_MODEL = "text-embedding-3-large"
_DEFAULT_SIMILARITY = 0.75
_DEFAULT_EDITS = 5
_GRADED = frozenset({"similar", "similar:cosine", "llm-rubric", "model-graded-closedqa", "assert-set"})
"""Types of assertions with scores between 0 and 1: the mean of several does not tell how many passed."""
_LONGEST_COUNT = 1000
"""Most repetitions in a regular expression of RE2."""
BUDGETS: Mapping[str, str] = {"cost": "budget/cost_usd", "latency": "budget/latency_s"}
"""Type of an assertion on cost or latency to the name of its budget."""
_MILLISECONDS = 1000.0
_UNREAD = "no check reads a text of this kind"
_MEASURED = "a model grades it from 0 to 1"
_REASONS = {
    "javascript": "code",
    "python": "code",
    "ruby": "code",
    "webhook": "code",
    "contains-json": "a check reads JSON only in a whole response",
    "rouge-n": "it divides and counts words in another way than ROUGE-1 here",
    "is-valid-openai-tools-call": "no check compares all arguments with the declaration of a tool",
    "tool-call-f1": "it reads calls from the text of the output",
    **dict.fromkeys(("similar:dot", "similar:euclidean"), "only the cosine of embeddings is compared"),
    **dict.fromkeys(("bleu", "gleu", "meteor"), "no check has this measure of similarity"),
    **dict.fromkeys(("perplexity", "perplexity-score"), "a run has no probabilities of tokens"),
    **dict.fromkeys(("is-sql", "contains-sql", "is-xml", "contains-xml"), _UNREAD),
    **dict.fromkeys(("is-html", "contains-html"), _UNREAD),
    "is-refusal": "its list of phrases is a part of promptfoo",
    **dict.fromkeys(("g-eval", "factuality", "model-graded-factuality", "answer-relevance"), _MEASURED),
    **dict.fromkeys(("context-faithfulness", "context-recall", "context-relevance", "pi"), _MEASURED),
}


@frozen
class CarriedCheck:
    """A check of one case, made from one or several assertions."""

    name: str
    """The assertion's `metric`, or its type if it has none; `any` for several alternative assertions."""
    content: JsonObject
    """Content of the check in a thresholds file, without the keys that select cases."""
    is_budget: bool = False
    """True if `name` is a budget, such as `budget/cost_usd`; then `content` is its criterion."""


@frozen
class AssertionContext:
    """Facts about a test that its assertions depend on."""

    variables: Mapping[str, object]
    folder: Path
    """Folder of the configuration."""
    has_transform: bool = False
    """True if the test has `options.transform`, which changes a response before it is compared."""
    grader: object = None
    """Value of `options.provider`: the model for assertions that need one and name none; None if absent."""


ReportLoss = Callable[[Sequence[str | int], str], None]
"""Function that records a loss: it takes the path of an assertion within a list, and a sentence.

The path () means the whole list.
"""


def convert_assertions(
    assertions: object, threshold: object, context: AssertionContext, report_loss: ReportLoss
) -> Iterator[CarriedCheck]:
    """Yield checks that all pass if and only if the converted assertions pass.

    `threshold` is the lowest mean of the assertions' scores that passes; None if all assertions must pass.
    `report_loss` is called for each assertion without a counterpart. In two cases, nothing is converted, and
    `report_loss` is called once for the whole list:

    - No check can express the threshold.
    - One passed assertion is enough for the threshold, and one of the assertions cannot be an alternative in
      a check, for example because it has no counterpart.
    """
    listed = assertions if isinstance(assertions, list) else []
    is_any = False
    if threshold is not None:
        try:
            is_any = _needs_one_only(listed, threshold)
        except NoCounterpartError as error:
            report_loss((), str(error))
            return
    if is_any and len(listed) > 1:
        yield from _convert_any(listed, context, report_loss)
        return
    for at, each in enumerate(listed):
        if isinstance(each, Mapping) and each.get("type") == "assert-set":

            def lose_below(path: Sequence[str | int], sentence: str, at: int = at) -> None:
                report_loss((at, "assert", *path) if path else (at,), sentence)

            yield from convert_assertions(each.get("assert"), each.get("threshold"), context, lose_below)
            continue
        try:
            yield _convert_assertion(each, context)
        except NoCounterpartError as error:
            report_loss((at,), str(error))


def _needs_one_only(listed: Sequence[object], threshold: object) -> bool:
    """Return True if one passed assertion is enough for the threshold, False if all of them have to pass.

    Raises:
        NoCounterpartError: no check can express the threshold, for example if two of three assertions must
            pass.
    """
    if isinstance(threshold, bool) or not isinstance(threshold, int | float):
        raise NoCounterpartError("a `threshold` that is no number")
    if threshold <= 0:
        raise NoCounterpartError(f"assertions with the threshold {threshold:g}, which cannot fail")
    objects = [each for each in listed if isinstance(each, Mapping)]
    weights = [_get_weight(each) for each in objects]
    counted = [weight for weight in weights if weight]
    if any(str(each.get("type")) in _GRADED for each in objects):
        raise NoCounterpartError(f"assertions with the threshold {threshold:g} for the mean of graded scores")
    if not counted or threshold > 1 - min(counted) / sum(counted) + 1e-9:
        return False
    if threshold <= min(counted) / sum(counted) + 1e-9 and len(counted) == len(listed):
        return True
    raise NoCounterpartError(f"assertions with the threshold {threshold:g}, which some of them reach")


def _get_weight(assertion: Mapping[str, object]) -> float:
    weight = assertion.get("weight", 1)
    return float(weight) if isinstance(weight, int | float) else 1.0


def _convert_any(
    listed: Sequence[object], context: AssertionContext, report_loss: ReportLoss
) -> Iterator[CarriedCheck]:
    try:
        checks = [_convert_assertion(each, context) for each in listed]
    except NoCounterpartError as error:
        report_loss((), f"one of several assertions: {error}")
        return
    if any(each.is_budget for each in checks):
        report_loss((), "one of several assertions, of which one is a limit of cost or latency")
        return
    groups = [each.content for each in checks]
    if any({*group} & {"alternatives", "none_of"} for group in groups):
        report_loss((), "one of several assertions, of which one has several ways itself")
        return
    yield CarriedCheck("any", {"alternatives": groups})


def _convert_assertion(assertion: object, context: AssertionContext) -> CarriedCheck:
    """Convert one assertion to a check, or to a budget.

    Raises:
        NoCounterpartError: the assertion has no counterpart.
    """
    kind = assertion.get("type") if isinstance(assertion, Mapping) else None
    if not isinstance(assertion, Mapping) or not isinstance(kind, str):
        raise NoCounterpartError("an assertion without a type")
    base = kind.removeprefix("not-")
    is_call = base.startswith("trajectory:")
    has_transform = assertion.get("transform") or assertion.get("contextTransform")
    if has_transform or (context.has_transform and not is_call):
        raise NoCounterpartError(f"assert `{kind}` with a transform")
    try:
        if kind in BUDGETS:
            return CarriedCheck(BUDGETS[kind], convert_budget(kind, assertion), is_budget=True)
        content = _build_conditions(base, assertion, context)
    except (NoCounterpartError, UnknownPatternError) as error:
        why = str(error)
        between = " " if why.startswith(("with ", "of ", "(")) else ": " if why else ""
        raise NoCounterpartError(f"assert `{kind}`{between}{why}") from None
    if kind != base:
        content = _negate(content, base)
    if _get_weight(assertion) == 0:
        content = {**content, "gates": False}
    metric = assertion.get("metric")
    return CarriedCheck(metric if isinstance(metric, str) and metric else kind, content)


def _build_conditions(kind: str, assertion: Mapping[str, object], context: AssertionContext) -> JsonObject:
    if kind.startswith("trajectory:"):
        return convert_call_assertion(kind, assertion.get("value"), context.variables)
    if kind in _RESPONSE_CONVERTERS:
        return {"response": _RESPONSE_CONVERTERS[kind](assertion, context)}
    if kind in _CHECK_CONVERTERS:
        return _CHECK_CONVERTERS[kind](assertion, context)
    raise NoCounterpartError(f"({_REASONS.get(kind, 'no check has its meaning')})")


def _negate(content: JsonObject, kind: str) -> JsonObject:
    """Return the content of the check for a negated assertion `not-KIND`.

    `content` is the content of the check for the assertion `KIND`.

    Raises:
        NoCounterpartError: no check can express the negation.
    """
    response, tools = content.get("response"), content.get("tools")
    if kind in {"contains", "icontains"} and isinstance(response, Mapping):
        folded = {key: value for key, value in response.items() if key == "ignore_case"}
        return {"response": {"not_contains": response["contains"], **folded}}
    if kind == "trajectory:tool-used" and isinstance(tools, Mapping) and "require" in tools:
        return {"tools": {"forbid": tools["require"]}}  # promptfoo: none of several
    if "none_of" in content:
        raise NoCounterpartError(f"assert `not-{kind}`")
    return {"none_of": content.get("alternatives") or [content]}


# --- texts --------------------------------------------------------------------------------------------------


def _render(assertion: Mapping[str, object], context: AssertionContext) -> str:
    """Return the value of an assertion as text, with its variables filled in.

    Raises:
        NoCounterpartError: the value is empty, in a file, or neither text nor number. Also raised if the
            value is a template that cannot be rendered.
    """
    text = render_template(format_text(assertion.get("value")), context.variables)
    if text.startswith("file://"):
        raise NoCounterpartError("with a value in a file")
    if not text:
        raise NoCounterpartError("with an empty value")
    return text


def _render_list(assertion: Mapping[str, object], context: AssertionContext) -> list[str]:
    value = assertion.get("value")
    listed = parse_list(_render(assertion, context)) if isinstance(value, str) else value
    if not isinstance(listed, list) or not listed:
        raise NoCounterpartError("with a value that is no list")
    return [_render({"value": each}, context) for each in listed]


def _build_ignore_case(kind: object) -> JsonObject:
    return {"ignore_case": True} if "icontains" in str(kind) else {}


def _convert_contains(assertion: Mapping[str, object], context: AssertionContext) -> JsonObject:
    return {"contains": _render(assertion, context), **_build_ignore_case(assertion["type"])}


def _convert_all(assertion: Mapping[str, object], context: AssertionContext) -> JsonObject:
    return {"contains": _render_list(assertion, context), **_build_ignore_case(assertion["type"])}


def _convert_any_text(assertion: Mapping[str, object], context: AssertionContext) -> JsonObject:
    texts, fold = _render_list(assertion, context), _build_ignore_case(assertion["type"])
    groups = [{"response": {"contains": each, **fold}} for each in texts]
    return {"alternatives": groups} if len(groups) > 1 else groups[0]


def _convert_equals(assertion: Mapping[str, object], context: AssertionContext) -> JsonObject:
    if assertion.get("normalizeUnicode"):
        raise NoCounterpartError("with `normalizeUnicode`")
    value = assertion.get("value")
    if "value" in assertion and (value is None or isinstance(value, list | dict)):
        if "{{" in json.dumps(value, default=str):
            raise NoCounterpartError("with a template in an object")
        return {"json_schema": {"const": value}}
    return {"equals": _render(assertion, context)}


def _convert_regex(assertion: Mapping[str, object], context: AssertionContext) -> JsonObject:
    from evalgate.documents.re2_patterns import InvalidPatternError, RegexEngineMissingError, compile_pattern

    pattern = translate_pattern(_render(assertion, context))
    try:
        compile_pattern(pattern)
    except InvalidPatternError as error:
        raise NoCounterpartError(f"with a pattern that RE2 does not read: {error}") from None
    except RegexEngineMissingError:
        pass  # `evalgate validate` says what to install
    return {"matches": pattern}


def _convert_rubric(assertion: Mapping[str, object], context: AssertionContext) -> JsonObject:
    if assertion.get("threshold") is not None:
        raise NoCounterpartError("with a threshold: a judge affirms a statement or does not")
    return {"semantic": _render(assertion, context)}


def _convert_levenshtein(assertion: Mapping[str, object], context: AssertionContext) -> JsonObject:
    most = assertion.get("threshold") or _DEFAULT_EDITS
    if not isinstance(most, int | float) or most < 0:
        raise NoCounterpartError("with a threshold that is no number")
    return {"similar": {"to": _render(assertion, context), "by": "edit_distance", "max_edits": int(most)}}


def _convert_similar(assertion: Mapping[str, object], context: AssertionContext) -> JsonObject:
    value, threshold = assertion.get("value"), assertion.get("threshold", _DEFAULT_SIMILARITY)
    if not isinstance(threshold, int | float) or not 0 < threshold <= 1:
        raise NoCounterpartError("with a threshold that is not between 0 and 1")
    rest = {
        "by": "embeddings",
        "model": _find_embedding_model(assertion.get("provider") or context.grader),
        "at_least": threshold,
    }
    texts = _render_list(assertion, context) if isinstance(value, list) else [_render(assertion, context)]
    groups = [{"response": {"similar": {"to": text, **rest}}} for text in texts]
    return {"alternatives": groups} if len(groups) > 1 else groups[0]


def _find_embedding_model(provider: object) -> str:
    found = provider.get("embedding") if isinstance(provider, Mapping) else provider
    name = found.get("id") if isinstance(found, Mapping) else found
    if name is None or (isinstance(name, str) and ":embedding" not in name):
        return _EMBEDDING_MODEL  # the provider of another kind of assertions
    match = re.fullmatch(r"openai:embeddings?:([\w.-]+)", str(name))
    if match is None:
        raise NoCounterpartError(f"with the embeddings of `{name}`")
    return match[1]


def _convert_word_count(assertion: Mapping[str, object], _: AssertionContext) -> JsonObject:
    value = assertion.get("value")
    least, most = (value.get("min"), value.get("max")) if isinstance(value, Mapping) else (value, value)
    if any(isinstance(each, bool) or not isinstance(each, int | None) for each in (least, most)):
        raise NoCounterpartError("with a value that is no number of words")
    found: JsonObject = {"response": {"max_words": most}} if most else {}
    if isinstance(least, int) and least > 1:
        found = {**found, "none_of": [{"response": {"max_words": least - 1}}]}
    if not found or least == 1 or most == 0:
        raise NoCounterpartError("with a count of no word or one")
    return found


def _convert_character_count(assertion: Mapping[str, object], _: AssertionContext) -> JsonObject:
    value = assertion.get("value")
    least, most = (value.get("min"), value.get("max")) if isinstance(value, Mapping) else (value, value)
    least = 0 if least is None and isinstance(value, Mapping) else least
    counts = [each for each in (least, most) if each is not None]
    if not counts or any(isinstance(each, bool) or not isinstance(each, int) or each < 0 for each in counts):
        raise NoCounterpartError("with a value that is no number of characters")
    if any(isinstance(each, int) and each > _LONGEST_COUNT for each in counts):
        raise NoCounterpartError(f"(a regular expression counts to {_LONGEST_COUNT:,})")
    return {"matches": rf"(?s)\A.{{{least},{'' if most is None else most}}}\z"}


_Converter = Callable[[Mapping[str, object], AssertionContext], JsonObject]
_RESPONSE_CONVERTERS: Mapping[str, _Converter] = {
    "contains": _convert_contains,
    "icontains": _convert_contains,
    "contains-all": _convert_all,
    "icontains-all": _convert_all,
    "equals": _convert_equals,
    "starts-with": lambda assertion, context: {"starts_with": _render(assertion, context)},
    "ends-with": lambda assertion, context: {"matches": re.escape(_render(assertion, context)) + r"\z"},
    "character-count": _convert_character_count,
    "regex": _convert_regex,
    "is-json": lambda assertion, context: {
        "json_schema": read_schema(assertion.get("value"), context.folder)
    },
    "levenshtein": _convert_levenshtein,
    "llm-rubric": _convert_rubric,
    "model-graded-closedqa": _convert_rubric,
}
"""Type of an assertion to the function that returns the conditions on a response."""
_CHECK_CONVERTERS: Mapping[str, _Converter] = {
    "contains-any": _convert_any_text,
    "icontains-any": _convert_any_text,
    "similar": _convert_similar,
    "similar:cosine": _convert_similar,
    "word-count": _convert_word_count,
}
"""Type of an assertion to the function that returns all conditions of the check."""


def convert_budget(kind: str, assertion: Mapping[str, object]) -> JsonObject:
    """Return the budget criterion of an assertion `cost` (US dollars) or `latency`.

    A latency is in milliseconds in the assertion, and in seconds in the criterion.

    Raises:
        NoCounterpartError: the assertion has no limit above 0.
    """
    limit = assertion.get("threshold")
    if isinstance(limit, bool) or not isinstance(limit, int | float) or limit <= 0:
        raise NoCounterpartError("with no `threshold` above 0")
    return {"max": limit if kind == "cost" else limit / _MILLISECONDS, "gates": assertion.get("weight") != 0}


def merge_budgets(
    ids: Sequence[str], limits_of: Sequence[Mapping[str, JsonObject]]
) -> tuple[dict[str, JsonObject], list[JsonObject]]:
    """Return a criterion for each budget, with its highest limit, and rules for the cases with lower limits.

    `limits_of` has the budgets of each case, in the order of `ids`. A budget is left out if a case lacks it,
    because a criterion limits every case.
    """
    criteria: dict[str, JsonObject] = {}
    rules: list[JsonObject] = []
    for name in find_common_budgets(limits_of):
        limits = [float(cast("float", each[name]["max"])) for each in limits_of]
        most = max(limits)
        criteria[name] = {"max": most, "gates": any(each[name]["gates"] for each in limits_of)}
        for limit in sorted({*limits} - {most}):
            own = [case_id for case_id, found in zip(ids, limits, strict=True) if found == limit]
            rules.append({"ids": own, "criteria": {name: limit}})
    return criteria, rules


def find_common_budgets(limits_of: Sequence[Mapping[str, JsonObject]]) -> list[str]:
    """Return the names of the budgets that every case has; [] if there are no cases."""
    return [name for name in BUDGETS.values() if limits_of and all(name in each for each in limits_of)]
