"""The scores of tRPC-Agent-Go's deterministic metrics, as its Go packages of August 2026 give them."""

import pytest
from pydantic import ValidationError

from evalgate.core.types import Criterion, MetricScore, NotApplicable
from evalgate.integrations.trpc.rouge_scores import compute_rouge, split_into_sentences
from evalgate.metrics.scoring import BoundMetric
from tests.conformance.trpc import Vector, rows, vectors

VECTORS = vectors()
SCORED = [vector for vector in VECTORS if vector.error is None and vector.status != "not_evaluated"]
UNEVALUATED = [vector for vector in VECTORS if vector.error is None and vector.status == "not_evaluated"]
ABORTED = [vector for vector in VECTORS if vector.error is not None]


@pytest.mark.parametrize("vector", SCORED, ids=lambda vector: vector.id)
async def test_scores_are_equal(vector: Vector) -> None:
    metric = vector.build()
    result = await metric.score(vector.case(), vector.run())

    assert isinstance(result, MetricScore)
    assert result.score == vector.score
    bound = BoundMetric(Criterion(vector.metric, vector.threshold), metric)
    assert bound.decide_score_status(result.score, result.passed) == vector.status
    assert vector.scores in (None, [turn.score for turn in result.turns])
    # A turn that is missing has a reason of our own.
    assert None in (*vector.expected, *vector.actual) or vector.reason_contains in result.reason
    assert bool(result.reason) == (result.score < 1.0)


@pytest.mark.parametrize("vector", UNEVALUATED, ids=lambda vector: vector.id)
async def test_what_is_not_evaluated_has_a_reason(vector: Vector) -> None:
    assert isinstance(await vector.build().score(vector.case(), vector.run()), NotApplicable)


@pytest.mark.parametrize("vector", ABORTED, ids=lambda vector: vector.id)
async def test_what_go_aborts_is_refused_before_the_run_or_fails_its_turn(vector: Vector) -> None:
    """docs/conformance.md lists these rows."""
    try:
        metric = vector.build()
    except ValidationError:
        return
    result = await metric.score(vector.case(), vector.run())
    assert len(vector.expected) != len(vector.actual)
    assert isinstance(result, NotApplicable) or (isinstance(result, MetricScore) and result.score < 1.0)


OUR_ROUGE = [
    ("rouge1", "testing one two", "testing", (1.0, 1 / 3, 0.5)),
    ("rouge2", "testing one two", "testing one", (1.0, 0.5, 2 / 3)),
    ("rouge3", "a b", "a b", (0.0, 0.0, 0.0)),
    ("rougeL", "a b c d", "d c b a", (0.25, 0.25, 0.25)),
    ("rougeLsum", "a a b", "a\na\na", (1 / 3, 1 / 3, 1 / 3)),
]


@pytest.mark.parametrize(("name", "expected", "actual", "score"), OUR_ROUGE)
def test_rouge(name: str, expected: str, actual: str, score: tuple[float, ...]) -> None:
    assert compute_rouge(expected, actual, name) == score


def test_rouge_and_stems_are_equal_to_the_last_bit() -> None:
    for row in rows("numeric.json"):
        if row["kind"] == "rouge":
            given, wanted = row["input"], row["output"]
            found = compute_rouge(
                given["target_expected"],
                given["prediction_actual"],
                given["rougeType"],
                stemmed=given["useStemmer"],
                split_sentences=given["splitSummaries"],
            )
            assert found == (wanted["precision"], wanted["recall"], wanted["f1"]), row["id"]


def test_sentences_are_split_alike() -> None:
    for row in rows("numeric.json"):
        if row["kind"] == "sentence_split":
            assert split_into_sentences(row["input"]["text"]) == row["output"]["sentences"], row["id"]
