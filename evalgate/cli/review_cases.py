"""`evalgate review`: accept, correct or drop observed cases, at the terminal or by options."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from evalgate.core.errors import InvalidInputError
from evalgate.core.formatting import pluralize
from evalgate.core.types import EvalCase
from evalgate.datasets.case_review import (
    Review,
    check_names,
    describe_case,
    drop_cases,
    format_case_json,
    mark_cases_expected,
    open_review,
    replace_case_json,
)

_CHOICES = "[e]xpected, [c]orrect, [d]rop, [s]kip, [q]uit"

Print = Callable[[str], None]


def review_cases(
    path: str, folder: Path, *, accept: Sequence[str], drop: Sequence[str], accept_all: bool, write: Print
) -> int:
    """Review the observed cases of an eval set: the cases that were imported and not reviewed yet.

    `accept` and `drop` are ids of cases. With `accept_all`, all observed cases that are not dropped are
    accepted. If no decision is given, the user is asked about each case in a terminal. Without a terminal,
    the observed cases are listed. Return 1 if observed cases were only listed, else 0. `write` is the
    function that prints a line.

    Raises:
        InvalidInputError: the eval set or its notes cannot be read or written, an id belongs to no observed
            case, or an id is in `accept` and in `drop`. Also raised if no case would be left.
    """
    review = open_review(folder / path, path)
    if accept or drop or accept_all:
        review = _apply_decisions(review, accept, drop, accept_all)
        write(_describe_open(review))
        return 0
    if not review.open_cases or not (sys.stdin.isatty() and sys.stdout.isatty()):
        _print_cases(review.open_cases, write)
        write(_describe_open(review))
        return 1 if review.open_cases else 0
    _ask_about_cases(review, write)
    return 0


def _apply_decisions(review: Review, accept: Sequence[str], drop: Sequence[str], accept_all: bool) -> Review:
    if both := sorted(set(accept) & set(drop)):
        raise InvalidInputError(f"{both[0]!r} is to be accepted and dropped: decide")
    check_names(review, (*accept, *drop))  # before anything is changed
    if drop:
        drop_cases(review, drop)
        review = _reopen(review)
    names = [case.eval_id for case in review.open_cases] if accept_all else accept
    if names:
        mark_cases_expected(review, names)
    return _reopen(review)


def _reopen(review: Review) -> Review:
    return open_review(review.file.path, review.file.shown_as)


def _describe_open(review: Review) -> str:
    if not review.open_cases:
        return f"{review.file.shown_as}: no case is left to review."
    many = len(review.open_cases)
    verb = "is" if many == 1 else "are"
    return f"{review.file.shown_as}: {pluralize(many, 'observed case')} {verb} not reviewed yet."


def _print_cases(cases: Sequence[EvalCase], write: Print) -> None:
    for case in cases:
        for line in describe_case(case):
            write(line)


def _ask_about_cases(review: Review, write: Print) -> None:
    names = [case.eval_id for case in review.open_cases]
    for number, name in enumerate(names, 1):
        review = _reopen(review)
        case = next((each for each in review.open_cases if each.eval_id == name), None)
        if case is None:
            continue
        write(f"{number} of {len(names)}")
        _print_cases([case], write)
        if not _ask_about_case(review, name, write):
            break
    write(_describe_open(_reopen(review)))


def _ask_about_case(review: Review, name: str, write: Print) -> bool:
    """Ask until the user decides about the case or skips it. Return False if the user ends the review."""
    while True:
        answer = (
            click.prompt(_CHOICES, prompt_suffix=" > ", default="s", show_default=False).strip().lower()[:1]
        )
        try:
            if answer == "e":
                mark_cases_expected(review, [name])
            elif answer == "d":
                drop_cases(review, [name])
            elif answer == "c":
                _correct_case(review, name)
            elif answer not in {"s", "q"}:
                continue
        except InvalidInputError as error:
            write(str(error))
            continue
        return answer != "q"


def _correct_case(review: Review, name: str) -> None:
    """Open the JSON of the case in $EDITOR, and save the edited case, which then counts as reviewed.

    Raises:
        InvalidInputError: the editor fails, the user changed nothing, or the edited text is not a case with
            the same id. Also raised if the eval set's file cannot be changed.
    """
    text = format_case_json(review, name)
    try:
        edited = click.edit(text, extension=".json")
    except click.ClickException as error:
        raise InvalidInputError(f"{name}: {error.message}") from None
    if edited is None or edited == text:
        raise InvalidInputError(f"{name}: nothing was changed")
    replace_case_json(review, name, edited)
