"""The scores of Google ADK 2.3.0 and 2.13.0, to the last bit."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from evalgate.core.protocols import EvalFormat
from evalgate.core.types import MetricScore, NotApplicable
from evalgate.datasets.loading import load_eval_sets
from evalgate.documents.strict_json import read_json
from evalgate.integrations.adk.evalset import AdkFormat
from evalgate.integrations.adk.legacy_evalset import AdkLegacyFormat
from evalgate.metrics.rouge import stem_word
from tests.conformance import shared_folder
from tests.conformance.adk import Vector, vectors

FORMATS: dict[str, EvalFormat] = {"adk": AdkFormat(), "adk-legacy": AdkLegacyFormat()}
VECTORS = vectors()
SCORED = [vector for vector in VECTORS if vector.scores is not None]
UNSCORED = [vector for vector in VECTORS if vector.scores is None and not vector.is_aborted]
ABORTED = [vector for vector in VECTORS if vector.is_aborted]


@pytest.mark.parametrize("vector", SCORED, ids=lambda vector: vector.id)
async def test_scores_are_equal(vector: Vector) -> None:
    result = await vector.build().score(vector.case(), vector.run())

    assert isinstance(result, MetricScore)
    assert [turn.score for turn in result.turns] == vector.scores
    assert result.score == vector.score


@pytest.mark.parametrize("vector", UNSCORED, ids=lambda vector: vector.id)
async def test_what_google_adk_leaves_unevaluated_has_a_reason(vector: Vector) -> None:
    if vector.expected:  # its engine skips a criterion that it cannot read; ours says so before the run
        with pytest.raises(ValidationError):
            vector.build()
    else:
        assert isinstance(await vector.build().score(vector.case(), vector.run()), NotApplicable)


async def test_a_run_that_google_adk_aborts_has_a_failing_turn() -> None:
    """Its engine gives up when the turns are not as many as expected; see the committed rows for what we do."""
    for vector in ABORTED:
        result = await vector.build().score(vector.case(), vector.run())

        assert isinstance(result, MetricScore), vector.id
        assert len(result.turns) == max(len(vector.expected), len(vector.actual)), vector.id
        assert result.turns[-1].score == 0.0, vector.id
        assert result.turns[-1].reason, vector.id
        assert result.score < 1.0, vector.id


def corpus() -> list[Path]:
    folder = shared_folder()
    return sorted((folder / "corpus/adk").iterdir()) if folder else []


def _is_eval_set(path: Path) -> bool:
    return not path.name.endswith(("test_config.json", ".session.json"))


def test_every_real_eval_set_loads() -> None:
    for path in filter(_is_eval_set, corpus()):
        (eval_set,) = load_eval_sets([path.name], FORMATS, folder=path.parent)

        assert eval_set.cases, path.name
        assert all(case.turns or case.scenario for case in eval_set.cases), path.name
        assert all(case.line for case in eval_set.cases), path.name


def test_what_stands_beside_real_eval_sets_is_not_taken_for_one() -> None:
    for path in corpus():
        document = read_json(path, path.name)
        assert any(kind.matches_document(document) for kind in FORMATS.values()) == _is_eval_set(path), (
            path.name
        )


def test_words_have_the_stems_of_rouge_score() -> None:
    folder = shared_folder()
    path = folder / "conformance/adk/stems.json" if folder else None
    stems = json.loads(path.read_text("utf-8")) if path and path.is_file() else {"dying": "die"}

    # Words of up to three letters are not stemmed at all; ROUGE leaves them alone before asking.
    assert {word: stem_word(word) if len(word) > 3 else word for word in stems} == stems
