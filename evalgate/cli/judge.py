"""Commands `evalgate judge …`: have people label a judge's answers, and compare both."""

from pathlib import Path

import click

from evalgate.cli.help_pages import FullLineGroup
from evalgate.cli.options import DEFAULT_RESULTS, in_project_directory, require_nonempty, thresholds_file
from evalgate.cli.project_folder import FILE
from evalgate.cli.redacted_output import print_report, print_sentence


@click.group(cls=FullLineGroup)
def judge() -> None:
    """Compare the judge with labels of people.

    The labels are kept in judge-labels.json next to the thresholds file.
    """


@judge.command()
@click.argument("results", type=FILE, default=DEFAULT_RESULTS)
@click.option(
    "--count",
    "-n",
    type=click.IntRange(1, 10_000),
    default=40,
    show_default=True,
    metavar="N",
    help="Number of answers to draw.",
)
@click.option("--metric", metavar="NAME", callback=require_nonempty, help="Draw answers of this metric only.")
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Seed of the draw.")
@click.option(
    "--out",
    "-o",
    type=FILE,
    default="labels.yaml",
    show_default=True,
    metavar="FILE",
    callback=require_nonempty,
    help="File for people to fill; never overwritten.",
)
@thresholds_file
@in_project_directory
def sample(
    results: str,
    count: int,
    metric: str | None,
    seed: int,
    out: str,
    thresholds: str | None,
    working_directory: str,
) -> int:
    """Draw judged answers for people to label.

    RESULTS is a results.json. As many answers are drawn that the judge passed as ones that it failed. The
    file that is written tells neither verdicts nor scores.
    """
    from evalgate.cli.judge_labelling import SampleOptions, write_label_sample

    for sentence in write_label_sample(
        SampleOptions(results, count, metric, seed, out), Path(working_directory), thresholds
    ):
        print_sentence(sentence)
    return 0


@judge.command()
@click.argument("labels", type=FILE)
@click.option(
    "--by", required=True, metavar="NAME", callback=require_nonempty, help="Person who gave the labels."
)
@thresholds_file
@in_project_directory
def add(labels: str, by: str, thresholds: str | None, working_directory: str) -> int:
    """Store the labels of one person.

    LABELS is a file of `evalgate judge sample` that a person filled. Answers without a label are skipped, and
    earlier labels of the same person for the same answers are replaced.
    """
    from evalgate.cli.judge_labelling import add_labels

    for sentence in add_labels(labels, by, Path(working_directory), thresholds):
        print_sentence(sentence)
    return 0


@judge.command()
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@thresholds_file
@in_project_directory
def check(as_json: bool, thresholds: str | None, working_directory: str) -> int:
    """Compare the judge with the labels of people.

    Prints agreement, Cohen's kappa, TPR and TNR with 95 % intervals, and the pass rate corrected for the
    judge's errors. Exit codes: 0 if no floor of `judge.floor` is missed, 1 if one is, 4 if there are not
    enough labels to tell.
    """
    from evalgate.cli.judge_labelling import build_judge_check

    found = build_judge_check(Path(working_directory), thresholds)
    print_report(found.as_json() if as_json else found.as_text(), is_json=as_json)
    return found.exit_code
