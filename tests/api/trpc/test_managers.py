"""The managers of eval sets, metrics and results: one contract for every place where they keep them."""

import json
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from evalgate.api import trpc
from evalgate.api.trpc.stored_managers import (
    StoredEvalResultManager,
    StoredEvalSetManager,
    StoredMetricManager,
)
from evalgate.api.trpc.wire import dump_wire, parse_wire
from evalgate.core.errors import InvalidInputError


@dataclass
class Managers:
    sets: Callable[[], StoredEvalSetManager]
    metrics: Callable[[], StoredMetricManager]
    results: Callable[[], StoredEvalResultManager]


def in_memory(folder: Path) -> Managers:
    return Managers(trpc.InMemoryEvalSetManager, trpc.InMemoryMetricManager, trpc.InMemoryEvalResultManager)


def local(folder: Path) -> Managers:
    return Managers(
        lambda: trpc.LocalEvalSetManager(folder),
        lambda: trpc.LocalMetricManager(folder),
        lambda: trpc.LocalEvalResultManager(folder),
    )


def behind_url(url: str) -> Managers:
    return Managers(
        lambda: trpc.FsspecEvalSetManager(url),
        lambda: trpc.FsspecMetricManager(url),
        lambda: trpc.FsspecEvalResultManager(url),
    )


def in_database(url: str) -> Managers:
    return Managers(
        lambda: trpc.SqlEvalSetManager(url, table_prefix="test_"),
        lambda: trpc.SqlMetricManager(url, table_prefix="test_"),
        lambda: trpc.SqlEvalResultManager(url, table_prefix="test_"),
    )


PLACES: dict[str, Callable[[Path], Managers]] = {
    "memory": in_memory,
    "local": local,
    "fsspec file": lambda folder: behind_url(f"file://{folder}"),
    "fsspec memory": lambda folder: behind_url(f"memory://{folder.name}"),
    "sqlite": lambda folder: in_database(f"sqlite:///{folder / 'evals.db'}"),
}


DATABASES = [
    pytest.param("mysql", marks=pytest.mark.docker),
    pytest.param("postgresql", marks=pytest.mark.docker),
]


def find_place(request: pytest.FixtureRequest, folder: Path) -> Managers:
    if request.param in PLACES:
        return PLACES[request.param](folder)
    return in_database(request.getfixturevalue("create_database")(request.param))


@pytest.fixture(params=[*PLACES, *DATABASES])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Managers:
    """Return the managers of each place."""
    return find_place(request, tmp_path)


@pytest.fixture(params=["local", "sqlite", *DATABASES])
def shared_place(request: pytest.FixtureRequest, tmp_path: Path) -> Managers:
    """Return the managers of each place where several writers wait for each other."""
    return find_place(request, tmp_path)


CASE = trpc.EvalCase(
    eval_id="calc_add",
    conversation=[
        trpc.Invocation(
            invocation_id="calc_add-1",
            user_content=trpc.Message(role="user", content="calc add 2 3 <é>"),
            tools=[trpc.Tool(id="1", name="calculator", arguments={"a": 2**60, "b": 0.1}, result=[])],
        )
    ],
    session_input=trpc.SessionInput(app_name="math", user_id="user"),
)


class TestEvalSets:
    def test_life_of_a_set(self, place: Managers) -> None:
        sets = place.sets()
        assert sets.list("math") == []
        created = sets.create("math", "basic")
        assert (created.name, created.eval_cases) == ("basic", [])
        sets.create("math", "Basic")
        sets.create("other", "basic")
        assert sets.list("math") == ["Basic", "basic"]
        sets.delete("math", "Basic")
        assert sets.list("math") == ["basic"]
        assert sets.list("other") == ["basic"]
        sets.close()

    def test_life_of_a_case(self, place: Managers) -> None:
        sets = place.sets()
        sets.create("math", "basic")
        sets.add_case("math", "basic", CASE)
        sets.add_case("math", "basic", trpc.EvalCase(eval_id="second", creation_timestamp=5.0))
        found = sets.get_case("math", "basic", "calc_add")
        assert found.creation_timestamp is not None
        assert found.conversation[0].creation_timestamp is not None
        assert CASE.creation_timestamp is None
        assert found.conversation[0].tools == CASE.conversation[0].tools
        assert sets.get_case("math", "basic", "second").creation_timestamp == 5.0

        sets.update_case("math", "basic", trpc.EvalCase(eval_id="calc_add", eval_mode="trace"))
        assert sets.get_case("math", "basic", "calc_add").eval_mode == "trace"
        sets.delete_case("math", "basic", "calc_add")
        assert [case.eval_id for case in sets.get("math", "basic").eval_cases] == ["second"]
        sets.close()

    def test_changes_of_what_is_returned_change_nothing_that_is_kept(self, place: Managers) -> None:
        sets = place.sets()
        sets.create("math", "basic").eval_cases.append(CASE)
        sets.add_case("math", "basic", CASE)
        sets.get("math", "basic").eval_cases.clear()
        assert len(sets.get("math", "basic").eval_cases) == 1
        sets.close()

    @pytest.mark.parametrize(
        ("call", "error", "message"),
        [
            (lambda sets: sets.get("math", "none"), trpc.NotFoundError, "there is no eval set math/none"),
            (lambda sets: sets.get("none", "basic"), trpc.NotFoundError, "there is no eval set none/basic"),
            (lambda sets: sets.delete("math", "none"), trpc.NotFoundError, "there is no eval set math/none"),
            (lambda sets: sets.create("math", "basic"), trpc.AlreadyExistsError, "math/basic exists already"),
            (lambda sets: sets.get_case("math", "basic", "no"), trpc.NotFoundError, "has no case 'no'"),
            (lambda sets: sets.add_case("math", "none", CASE), trpc.NotFoundError, "no eval set math/none"),
            (lambda sets: sets.add_case("math", "basic", CASE), trpc.AlreadyExistsError, "has a case"),
            (
                lambda sets: sets.update_case("math", "basic", trpc.EvalCase(eval_id="no")),
                trpc.NotFoundError,
                "has no case 'no'",
            ),
            (lambda sets: sets.delete_case("math", "basic", "no"), trpc.NotFoundError, "has no case 'no'"),
            (
                lambda sets: sets.add_case("math", "basic", trpc.EvalCase()),
                InvalidInputError,
                "`eval_id` is empty",
            ),
            *[
                (
                    lambda sets, wrong=wrong: sets.add_case("math", "basic", wrong),
                    InvalidInputError,
                    "`eval_case` must be an `EvalCase`, not",
                )
                for wrong in (None, {"eval_id": "a"})
            ],
            (
                lambda sets: sets.add_case("math", "basic", trpc.EvalCase(eval_id="\ud800")),
                InvalidInputError,
                "`eval_id` is .* no valid Unicode",
            ),
            (lambda sets: sets.get(3, "basic"), InvalidInputError, "`app_name` must be a text, not 3"),
            (lambda sets: sets.get("", "basic"), InvalidInputError, "`app_name` is empty"),
            (lambda sets: sets.create("math", "../basic"), InvalidInputError, "must not contain a slash"),
            (lambda sets: sets.list(".."), InvalidInputError, "must not contain a slash"),
        ],
    )
    def test_errors(
        self, place: Managers, call: Callable[[Any], object], error: type[Exception], message: str
    ) -> None:
        sets = place.sets()
        sets.create("math", "basic")
        sets.add_case("math", "basic", CASE)
        before = sets.get("math", "basic")
        with pytest.raises(error, match=message) as caught:
            call(sets)
        assert isinstance(caught.value, InvalidInputError)
        assert caught.value.problems
        assert sets.get("math", "basic") == before
        assert sets.list("math") == ["basic"]
        sets.close()

    def test_writers_lose_no_case_of_each_other(self, shared_place: Managers) -> None:
        managers = [shared_place.sets() for _ in range(4)]
        managers[0].create("math", "basic")

        def add_cases(number: int) -> None:
            for index in range(5):
                managers[number].add_case("math", "basic", trpc.EvalCase(eval_id=f"{number}-{index}"))

        run_at_once([partial(add_cases, number) for number in range(4)])
        assert len(managers[0].get("math", "basic").eval_cases) == 20
        for each in managers:
            each.close()

    def test_one_of_two_creators_succeeds(self, shared_place: Managers) -> None:
        managers, errors = [shared_place.sets(), shared_place.sets()], list[Exception]()

        def create(sets: StoredEvalSetManager) -> None:
            try:
                sets.create("math", "basic")
            except trpc.AlreadyExistsError as error:
                errors.append(error)

        run_at_once([partial(create, sets) for sets in managers])
        assert managers[0].list("math") == ["basic"]
        assert len(errors) == 1
        for each in managers:
            each.close()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: trpc.EvalMetric.model_validate({"treshold": 1.0}), "has no field 'treshold'. Did you mean"),
        (lambda: trpc.EvalCase.model_validate({"evalId": "a", "mine": 1}), "has no field 'mine'"),
        (lambda: trpc.EvalMetric(threshold=float("nan")), "finite number"),
        (lambda: trpc.EvalMetric.model_validate({"threshold": None}), "no number as its `threshold`"),
        (lambda: trpc.EvalMetric.model_validate({"criterion": {"toolTrajectori": {}}}), "'toolTrajectori'"),
    ],
)
def test_code_cannot_set_unknown_fields(build: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object()])
def test_a_case_that_json_cannot_hold_is_refused(value: object, tmp_path: Path) -> None:
    """A file with `inf` could not be read any more, and NaN would become null."""
    manager = trpc.LocalEvalSetManager(str(tmp_path))
    manager.create("math", "basic")
    case = trpc.EvalCase(
        eval_id="a", conversation=[trpc.Invocation(tools=[trpc.Tool(name="t", arguments={"x": value})])]
    )
    for change in (manager.add_case, manager.update_case):
        with pytest.raises(InvalidInputError, match="`eval_case` 'a' is no JSON"):
            change("math", "basic", case)
    assert manager.get("math", "basic").eval_cases == []


@pytest.mark.parametrize("build", [trpc.InMemoryMetricManager, lambda: trpc.SqlMetricManager("sqlite://")])
@pytest.mark.parametrize("threshold", [float("nan"), float("inf"), None, "1", True])
def test_thresholds_are_finite(build: Callable[[], Any], threshold: Any) -> None:
    manager, metric = build(), trpc.EvalMetric(metric_name="a", threshold=1.0)
    manager.add("math", "basic", metric)
    for call in (manager.update, manager.add):
        changed = metric.model_copy(update={"threshold": threshold})
        with pytest.raises(
            InvalidInputError, match=r"the threshold of 'a' is .*: it must be a finite number"
        ):
            call("math", "basic", changed)
    assert manager.get("math", "basic", "a") == metric
    manager.close()


def test_a_database_is_a_url_or_an_engine() -> None:
    with pytest.raises(InvalidInputError, match="`database` is None"):
        trpc.SqlEvalSetManager(None)  # type: ignore[arg-type]


def test_a_database_that_cannot_be_used_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "evals.db"
    path.touch()
    events: list[str] = []
    listeners = {"connect": lambda *_: events.append("opened"), "close": lambda *_: events.append("closed")}
    for name, listener in listeners.items():
        sa.event.listen(sa.Pool, name, listener)
    try:
        with pytest.raises(trpc.StorageError, match="readonly database"):
            trpc.SqlEvalSetManager(f"sqlite:///file:{path}?mode=ro&uri=true")
    finally:
        for name, listener in listeners.items():
            sa.event.remove(sa.Pool, name, listener)
    assert events == ["opened", "closed"]


def test_unknown_attributes_cannot_be_set() -> None:
    metric = trpc.EvalMetric(metric_name="a", threshold=1.0)
    with pytest.raises(AttributeError, match=r"EvalMetric has no field 'treshold'\. Did you mean"):
        metric.treshold = 3
    metric.threshold = 0.5
    assert metric.to_wire() == {"metricName": "a", "threshold": 0.5}


def test_functions_are_kept_in_memory_only(tmp_path: Path) -> None:
    own = trpc.EvalMetric(
        metric_name="a",
        criterion=trpc.Criterion(tool_trajectory=trpc.ToolTrajectoryCriterion(compare=lambda *_: True)),
    )
    kept = trpc.InMemoryMetricManager()
    kept.add("math", "basic", own)
    found = kept.get("math", "basic", "a")
    assert found == own
    assert found is not own
    files = trpc.LocalMetricManager(tmp_path)
    with pytest.raises(InvalidInputError, match="has a function in `compare`"):
        files.add("math", "basic", own)
    assert files.list("math", "basic") == []


def test_what_a_function_belongs_to_is_not_copied() -> None:
    """It may hold a lock, which cannot be copied, or count its calls, which a copy would lose."""

    class Comparer:
        def __init__(self) -> None:
            self.lock = threading.Lock()

        def compare(self, actual: str, expected: str) -> bool:
            return actual == expected

    own = Comparer().compare
    text = trpc.TextCriterion(compare=own, length={"min": 1})
    kept = trpc.InMemoryMetricManager()
    criterion = trpc.Criterion(final_response=trpc.FinalResponseCriterion(text=text))
    kept.add("math", "basic", trpc.EvalMetric(metric_name="a", criterion=criterion))
    found = kept.get("math", "basic", "a").criterion
    assert found is not None
    assert found.final_response is not None
    assert found.final_response.text == text
    assert found.final_response.text is not text
    assert found.final_response.text.length is not text.length
    assert found.final_response.text.compare is own


def run_at_once(functions: Sequence[Callable[[], object]]) -> None:
    failures: list[BaseException] = []

    def run(function: Callable[[], object]) -> None:
        try:
            function()
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=run, args=(each,)) for each in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


METRIC = trpc.EvalMetric(
    metric_name="tool_trajectory_avg_score",
    threshold=1.0,
    criterion=trpc.Criterion(
        tool_trajectory=trpc.ToolTrajectoryCriterion(
            default_strategy=trpc.ToolTrajectoryStrategy(
                name=trpc.TextCriterion(match_strategy="exact"),
                arguments=trpc.JSONCriterion(number_tolerance=0.0),
            )
        )
    ),
)


class TestMetrics:
    def test_life_of_a_metric(self, place: Managers) -> None:
        metrics = place.metrics()
        assert metrics.list("math", "basic") == []
        metrics.add("math", "basic", METRIC)
        metrics.add("math", "basic", trpc.EvalMetric(metric_name="a", threshold=0.5))
        assert metrics.list("math", "basic") == ["tool_trajectory_avg_score", "a"]
        assert metrics.get("math", "basic", METRIC.metric_name) == METRIC
        metrics.update("math", "basic", trpc.EvalMetric(metric_name="a"))
        assert metrics.get("math", "basic", "a").threshold == 0.0
        metrics.delete("math", "basic", "a")
        assert metrics.list("math", "basic") == ["tool_trajectory_avg_score"]
        metrics.close()

    @pytest.mark.parametrize(
        ("call", "error"),
        [
            (lambda metrics: metrics.get("math", "basic", "no"), trpc.NotFoundError),
            (lambda metrics: metrics.get("math", "none", "no"), trpc.NotFoundError),
            (lambda metrics: metrics.delete("math", "basic", "no"), trpc.NotFoundError),
            (
                lambda metrics: metrics.update("math", "basic", trpc.EvalMetric(metric_name="no")),
                trpc.NotFoundError,
            ),
            (lambda metrics: metrics.add("math", "basic", METRIC), trpc.AlreadyExistsError),
            (lambda metrics: metrics.add("math", "basic", trpc.EvalMetric()), InvalidInputError),
            (lambda metrics: metrics.list("math", ""), InvalidInputError),
        ],
    )
    def test_errors(self, place: Managers, call: Callable[[Any], object], error: type[Exception]) -> None:
        metrics = place.metrics()
        metrics.add("math", "basic", METRIC)
        with pytest.raises(error):
            call(metrics)
        assert metrics.list("math", "basic") == [METRIC.metric_name]
        metrics.close()


class TestResults:
    def test_life_of_a_result(self, place: Managers) -> None:
        results = place.results()
        assert results.list("math") == []
        first = trpc.EvalSetResult(eval_set_id="basic", eval_case_results=[])
        name = results.save("math", first)
        assert name.startswith("math_basic_")
        assert len(name) == len("math_basic_") + 36
        assert (first.eval_set_result_id, first.eval_set_result_name) == (name, name)
        assert results.get("math", name) == first
        assert (
            results.save("math", trpc.EvalSetResult(eval_set_id="basic", eval_set_result_id="own")) == "own"
        )
        assert results.list("math") == sorted([name, "own"])
        results.close()

    def test_errors(self, place: Managers) -> None:
        results = place.results()
        with pytest.raises(trpc.NotFoundError, match="there is no result math/none"):
            results.get("math", "none")
        with pytest.raises(InvalidInputError, match="`eval_set_id` is empty"):
            results.save("math", trpc.EvalSetResult())
        with pytest.raises(InvalidInputError, match="slash"):
            results.save("math", trpc.EvalSetResult(eval_set_id="a", eval_set_result_id="../a"))
        results.close()


class TestFiles:
    """What lies in the folders."""

    def test_names(self, tmp_path: Path) -> None:
        trpc.LocalEvalSetManager(tmp_path).create("math", "basic")
        trpc.LocalMetricManager(tmp_path).add("math", "basic", METRIC)
        trpc.LocalEvalResultManager(tmp_path).save(
            "math", trpc.EvalSetResult(eval_set_id="basic", eval_set_result_id="r")
        )
        names = ["basic.evalset.json", "basic.metrics.json", "r.evalset_result.json"]
        assert sorted(each.name for each in (tmp_path / "math").iterdir()) == names

    def test_unknown_keys_and_large_numbers_stay(self, tmp_path: Path) -> None:
        path = tmp_path / "math/basic.evalset.json"
        path.parent.mkdir()
        kept = {
            "evalSetId": "basic",
            "evalCases": [
                {
                    "evalId": "old",
                    "conversation": [
                        {"userContent": {"role": "user", "content": "<&>", "mine": [1]}, "tools": []}
                    ],
                    "team": {"z": 1, "a": 12345678901234567890},
                }
            ],
            "labels": ["a"],
        }
        path.write_text(json.dumps(kept))
        trpc.LocalEvalSetManager(tmp_path).add_case("math", "basic", trpc.EvalCase(eval_id="new"))
        found = json.loads(path.read_text())
        old, new = found["evalCases"]
        del kept["evalCases"][0]["conversation"][0]["tools"]  # type: ignore[index]  # Go omits what is empty
        assert {**found, "evalCases": [old]} == kept
        assert new["evalId"] == "new"
        assert '"content": "\\u003c\\u0026\\u003e"' in path.read_text()

    def test_keys_in_any_case_and_older_shapes_are_read(self, tmp_path: Path) -> None:
        path = tmp_path / "math/basic.evalset.json"
        path.parent.mkdir()
        turn = {
            "user_content": {"role": "user", "parts": [{"text": "add"}]},
            "intermediate_data": {"tool_uses": [{"id": "1", "name": "add", "args": {"a": 1}}]},
        }
        path.write_text(
            json.dumps(
                {"eval_set_id": "basic", "EVALCASES": [{"eval_id": "a", "mine": 1, "conversation": [turn]}]}
            )
        )
        (case,) = trpc.LocalEvalSetManager(tmp_path).get("math", "basic").eval_cases
        assert case.conversation[0].to_wire() == {
            "userContent": {"role": "user", "content": "add"},
            "tools": [{"id": "1", "name": "add", "arguments": {"a": 1}}],
        }

    def test_every_problem_of_a_file_has_its_line(self, tmp_path: Path) -> None:
        path = tmp_path / "math/basic.metrics.json"
        path.parent.mkdir()
        path.write_text('[{"metricName": "a",\n"threshold": "x"},\n{"metricName": 5}]')
        with pytest.raises(InvalidInputError) as caught:
            trpc.LocalMetricManager(tmp_path).list("math", "basic")
        assert [(each.line, each.message) for each in caught.value.problems] == [
            (2, "`[0].threshold` must be a number, not 'x'"),
            (3, "`[1].metricName` must be text, not 5"),
        ]
        path.write_text("{}")
        with pytest.raises(InvalidInputError, match="must hold a list"):
            trpc.LocalMetricManager(tmp_path).list("math", "basic")

    def test_a_failed_change_makes_no_folder(self, tmp_path: Path) -> None:
        with pytest.raises(trpc.NotFoundError):
            trpc.LocalEvalSetManager(tmp_path).delete("typo", "basic")
        with pytest.raises(trpc.NotFoundError):
            trpc.LocalMetricManager(tmp_path).update("typo", "basic", METRIC)
        assert list(tmp_path.iterdir()) == []

    def test_a_failed_change_leaves_the_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        sets = trpc.LocalEvalSetManager(tmp_path)
        sets.create("math", "basic")
        before = (tmp_path / "math/basic.evalset.json").read_bytes()

        def fail(*args: object, **kwargs: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "replace", fail)
        with pytest.raises(trpc.StorageError, match="No space left on device"):
            sets.add_case("math", "basic", CASE)
        assert (tmp_path / "math/basic.evalset.json").read_bytes() == before

    def test_custom_locators(self, tmp_path: Path) -> None:
        """The document's example."""

        class CustomLocator:
            def build(self, base_dir: str, app_name: str, name: str) -> str:
                return str(Path(base_dir, app_name, f"custom-{name}.evalset.json"))

            def list(self, base_dir: str, app_name: str) -> list[str]:
                folder = Path(base_dir, app_name)
                names = [each.name for each in folder.iterdir()] if folder.is_dir() else []
                return [
                    name.removeprefix("custom-").removesuffix(".evalset.json")
                    for name in names
                    if name.endswith(".evalset.json")
                ]

        sets = trpc.LocalEvalSetManager(tmp_path, CustomLocator())
        assert sets.list("math") == []
        sets.create("math", "basic")
        assert sets.list("math") == ["basic"]
        assert (tmp_path / "math/custom-basic.evalset.json").is_file()


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInputError, match="driver of the database is not installed"):
        trpc.SqlEvalSetManager("oracle://u:p@localhost/db")
    with pytest.raises(InvalidInputError, match="this is no URL of a database"):
        trpc.SqlMetricManager("nothing")
    with pytest.raises(InvalidInputError):
        trpc.FsspecEvalSetManager("nothing://x")


def test_an_unreachable_database_hides_its_password() -> None:
    with pytest.raises(trpc.StorageError) as caught:
        trpc.SqlEvalSetManager("mysql+pymysql://user:hunter2@127.0.0.1:1/x?connect_timeout=2")
    assert "hunter2" not in str(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(arguments=JSON, state=st.dictionaries(st.text(), JSON, max_size=3), text=st.text())
def test_any_content_survives_the_file(arguments: Any, state: dict[str, Any], text: str) -> None:
    turn = trpc.Invocation(
        user_content=trpc.Message(role="user", content=text), tools=[trpc.Tool(arguments=arguments)]
    )
    session = trpc.SessionInput(state=state)
    whole = {
        "evalId": "a",
        "conversation": [turn.to_wire()],
        "sessionInput": session.to_wire(),
        "mine": state,
    }
    case = parse_wire(trpc.EvalCase, json.dumps(whole).encode(), "case")
    eval_set = trpc.EvalSet(eval_set_id="s", eval_cases=[case])
    assert parse_wire(trpc.EvalSet, dump_wire(eval_set).encode(), "s") == eval_set
