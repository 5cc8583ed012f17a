"""Select cases of a plan by the options `--affected`, `--tag`, `-k`, `--failed` and `--sample`.

Cases that `file:case_a,case_b` selects are not handled here: `evalgate.datasets.eval_set_paths` parses such a
pattern, and `evalgate.datasets.loading` loads only these cases of the file.
"""

import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from evalgate.config.cli_overrides import SelectionOptions
from evalgate.core.errors import InvalidInputError
from evalgate.core.formatting import build_case_quote, join_first, pluralize
from evalgate.core.frozen import frozen
from evalgate.core.types import CaseKey, CaseSelection
from evalgate.datasets.results_io import read_record
from evalgate.documents.keyword_expression import KeywordExpressionError, parse_keyword_expression
from evalgate.reporting.report_files import PREVIOUS_SUFFIX

if TYPE_CHECKING:
    from evalgate.config.schema.thresholds import Thresholds
    from evalgate.runner.base_branch import RuleFiles
    from evalgate.runner.plan import Plan

_SHOWN = 5  # names of cases in a notice


@frozen
class Candidate:
    """A case that options may select: its id, its eval set and its tags."""

    key: CaseKey
    tags: tuple[str, ...]

    def contains_name(self, name: str) -> bool:
        """Return True if the case's id, its eval set's id or a tag contains `name`, ignoring case."""
        return any(name.lower() in word.lower() for word in (*self.key, *self.tags))


def select_plan_cases(
    plan: "Plan", options: SelectionOptions, thresholds: "Thresholds", rule_files: "RuleFiles"
) -> "Plan":
    """Return the plan with only the cases that `options` select, and with a notice about the selection.

    With `options.affected`, only cases that the change in git affects are selected. If the change affects no
    suite, the returned plan has no case. If it affects every suite and no other option is given, the plan
    keeps all cases.

    Raises:
        InvalidInputError: an option is wrong, the record of `--failed` cannot be used, or the baseline,
            which lists the files that the agent opened, cannot be read. It is also raised if no case is
            selected, except if the change affects no suite.
    """
    every: Sequence[Candidate] = _list_candidates(plan)
    found = every
    if options.affected is not None:
        from evalgate.runner.affected import find_affected, select_affected_cases

        affected = find_affected(plan, thresholds, rule_files, options.affected)
        plan = replace(plan, affected=affected)
        if not affected.names:
            nothing = CaseSelection(options.words, 0, len(every))
            return replace(plan.select_cases(()), is_part=True, selection=nothing)
        plan = replace(plan, notices=(*plan.notices, affected.describe()))
        if affected.is_everything and not replace(options, affected=None).words:
            return plan
        wanted = select_affected_cases(plan, affected)
        found = [each for each in every if each.key in wanted]
    failed = None if options.failed is None else _read_failed_cases(options.failed, plan.workspace.folder)
    found = select_candidates(found, options, failed)
    selection = CaseSelection(options.words, len(found), len(every), options.sample is not None)
    part = plan.select_cases({each.key for each in found})
    gate = part.gate.model_copy(update={"min_cases": min(part.gate.min_cases, len(found))})
    notice = f"{len(found):,} of {pluralize(len(every), 'case')} selected by `{shlex.join(options.words)}`."
    notices = (*part.notices, notice, *_describe_missing(failed or (), every))
    return replace(part, is_part=True, gate=gate, selection=selection, notices=notices)


def _list_candidates(plan: "Plan") -> list[Candidate]:
    return [
        Candidate((suite.eval_set.eval_set_id, case.eval_id), suite.get_case_policy(case).tags)
        for suite in plan.suites
        for case in suite.eval_set.cases
    ]


def select_candidates(
    every: Sequence[Candidate], options: SelectionOptions, failed: Collection[CaseKey] | None
) -> Sequence[Candidate]:
    """Return the cases that all given options select together, in the order of `every`.

    `failed` holds the cases that failed in the run that `--failed` names; None without this option.
    `--sample` draws from the cases that the other options select. `--affected` is not applied here.

    Raises:
        InvalidInputError: `--tag` names an unknown tag, `-k` cannot be parsed, or no case is selected.
    """
    found: Sequence[Candidate] = every
    if options.tags:
        found = _select_tagged(found, options.tags)
    if options.keyword is not None:
        found = _select_matching(found, options.keyword)
    if failed is not None:
        found = _select_failed(found, failed)
    if options.sample is not None:
        found = draw_sample(found, options.sample, options.seed)
    if not found:
        raise InvalidInputError(f"no case is selected by {shlex.join(options.words)}")
    return found


def _select_tagged(cases: Sequence[Candidate], tags: Iterable[str]) -> Sequence[Candidate]:
    """Return the cases that have at least one wanted tag and no unwanted tag.

    In `tags`, an unwanted tag begins with `!`. If `tags` has only unwanted tags, a case needs no wanted tag.

    Raises:
        InvalidInputError: a given tag belongs to no case; the error lists every such tag.
    """
    known = {tag for case in cases for tag in case.tags}
    wanted = {tag for tag in tags if not tag.startswith("!")}
    unwanted = {tag.removeprefix("!") for tag in tags if tag.startswith("!")}
    if unknown := sorted((wanted | unwanted) - known):
        from evalgate.core.did_you_mean import did_you_mean

        raise InvalidInputError(
            "\n".join(f"--tag {tag}: no case has this tag.{did_you_mean(tag, known)}" for tag in unknown)
        )
    return [
        case
        for case in cases
        if (not wanted or not wanted.isdisjoint(case.tags)) and unwanted.isdisjoint(case.tags)
    ]


def _select_matching(cases: Sequence[Candidate], keyword: str) -> Sequence[Candidate]:
    """Return the cases for which the expression of `-k` is true, such as `refund and not slow`.

    A name in the expression is true for a case if the case's id, its eval set's id or a tag contains the
    name.

    Raises:
        InvalidInputError: the expression cannot be parsed.
    """
    try:
        matches = parse_keyword_expression(keyword)
    except KeywordExpressionError as error:
        raise InvalidInputError(f"-k {keyword!r}: {error}") from None
    return [case for case in cases if matches(case.contains_name)]


def _read_failed_cases(results: str, folder: Path) -> frozenset[CaseKey]:
    """Return the cases that did not pass in the record `results` (a `results.json`).

    If this file is missing, the last run was killed. Then the record of the run before it is read, which has
    the same name with `PREVIOUS_SUFFIX` at the end.

    Raises:
        InvalidInputError: the file cannot be read, or all of its cases passed.
    """
    previous = f"{results}{PREVIOUS_SUFFIX}"
    if not (folder / results).exists() and (folder / previous).exists():
        results = previous  # the last run was killed before it wrote its record
    record = read_record(folder / results, results)
    failed = frozenset(case.key for case in record.cases if case.status != "passed")
    if not failed:
        cases_then = pluralize(len(record.cases), "case")
        raise InvalidInputError(
            f"--failed: {cases_then} passed in {results} and none failed, so nothing is run. Run without "
            "--failed for a verdict on every case."
        )
    return failed


def _select_failed(cases: Sequence[Candidate], failed: Collection[CaseKey]) -> Sequence[Candidate]:
    """Return the cases that are in `failed`, in the order of `cases`.

    Raises:
        InvalidInputError: no case is in `failed`.
    """
    found = [case for case in cases if case.key in failed]
    if not found:
        raise InvalidInputError(
            f"--failed: {pluralize(len(failed), 'case')} failed in the last run, but none of them is among "
            "the cases that are selected now."
        )
    return found


def _describe_missing(failed: Collection[CaseKey], every: Sequence[Candidate]) -> Iterator[str]:
    """Yield a notice if some cases in `failed` are not in `every`, for example because they were renamed."""
    gone = sorted(frozenset(failed) - {case.key for case in every})
    if gone:
        names = join_first(list(map(build_case_quote(gone), gone)), _SHOWN)
        cases, are = pluralize(len(gone), "case"), "is" if len(gone) == 1 else "are"
        yield (
            f"{cases} that failed in the last run {are} in no eval set of this one, so nothing tells whether "
            f"{'it passes' if len(gone) == 1 else 'they pass'} now: {names}."
        )


# --- samples ------------------------------------------------------------------------------------------------


def draw_sample(cases: Sequence[Candidate], size: int, seed: int) -> Sequence[Candidate]:
    """Draw a stratified sample of `size` cases and return it in the order of `cases`.

    If there are fewer than `size` cases, all are returned. The cases with the same eval set and the same tags
    form a stratum. The sample is divided among the strata in proportion to their sizes. Within a stratum, the
    cases with the lowest hashes of name and `seed` are drawn, so a new case changes little of the sample.
    """
    if size >= len(cases):
        return cases
    strata: dict[tuple[str, frozenset[str]], list[Candidate]] = {}
    for case in cases:
        strata.setdefault((case.key[0], frozenset(case.tags)), []).append(case)
    shares = allocate_sample([len(members) for members in strata.values()], size)
    drawn: set[CaseKey] = set()
    for members, share in zip(strata.values(), shares, strict=True):
        ranked = sorted(members, key=lambda case: _rank_case(case.key, seed))
        drawn.update(case.key for case in ranked[:share])
    return [case for case in cases if case.key in drawn]


def allocate_sample(sizes: Collection[int], wanted: int) -> list[int]:
    """Return the number of cases to draw from each stratum, in proportion to the sizes of the strata.

    `sizes` are the numbers of cases of the strata, and `wanted` is the size of the sample. The sum of `sizes`
    must be above 0 and at least `wanted`. Fractions are rounded by the largest remainders.
    """
    total = sum(sizes)
    shares = [size * wanted // total for size in sizes]
    remainders = [size * wanted % total for size in sizes]
    largest = sorted(range(len(shares)), key=lambda at: (-remainders[at], at))
    for at in largest[: wanted - sum(shares)]:
        shares[at] += 1
    return shares


def _rank_case(key: CaseKey, seed: int) -> bytes:
    return sha256("\0".join((str(seed), *key)).encode(errors="surrogatepass")).digest()
