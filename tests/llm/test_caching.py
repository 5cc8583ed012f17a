"""The file of answers: damage to it breaks no run, and concurrent writers lose no answer."""

import asyncio
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from evalgate.config.token_prices import Tokens
from evalgate.core.types import ModelUsage, Usage
from evalgate.llm.caching import CachingModel, ResponseCache
from evalgate.llm.client import AnswerSchema, ModelAnswer, ModelRequest, TokenChoice, build_model_request
from evalgate.llm.errors import JudgeError
from evalgate.llm.usage import MeteredUsage
from evalgate.redaction.live_redactor import LiveRedactor
from evalgate.redaction.redactor import Redactor
from evalgate.system.folder_lock import lock_folder
from tests.llm.fakes import ScriptedModel, answered, failed

DAY = 86_400.0
PLANTED = "blue-monkey-4711-tango"


def open_file(path: Path, *, writes: bool = True, day: float = 100.0) -> ResponseCache:
    return ResponseCache(path, writes=writes, wall=lambda: day * DAY)


def names_in(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


@contextmanager
def sql(path: Path) -> Iterator[sqlite3.Connection]:
    file = sqlite3.connect(path)
    try:
        yield file
        file.commit()
    finally:
        file.close()


def test_what_is_put_is_got_in_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "new" / "cache.sqlite"
    with open_file(path) as file:
        assert file.get("a") is None
        file.put("a", "one")
        file.put("a", "two")
        file.put("b", "ü\0💧")
        assert file.get("a") == "two"
    with open_file(path) as file:
        assert (file.get("a"), file.get("b"), file.get("c"), file.notices) == ("two", "ü\0💧", None, ())

    assert names_in(path.parent) == ["cache.sqlite"], "at rest there is one file"


def test_reading_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    with open_file(path) as file:
        file.put("a", "one")
    before = path.read_bytes()
    path.chmod(0o444)
    with open_file(path, writes=False, day=900) as file:
        file.put("b", "two")
        assert (file.get("a"), file.get("b")) == ("one", None)
        assert file.prune(max_age_days=1, max_bytes=1) == 0
        assert file.notices == ()

    assert path.read_bytes() == before


def test_reading_what_is_not_there_makes_nothing(tmp_path: Path) -> None:
    with open_file(tmp_path / "sub" / "cache.sqlite", writes=False) as file:
        assert file.get("a") is None
        assert file.notices == ()

    assert list(tmp_path.iterdir()) == []


def a_foreign_file(path: Path) -> None:
    with sql(path) as file:
        file.execute("CREATE TABLE answers (key TEXT, answer TEXT, used INTEGER)")


def with_a_missing_column(path: Path) -> None:
    with open_file(path):
        pass
    with sql(path) as file:
        file.execute("ALTER TABLE answers RENAME COLUMN used TO since")


def with_an_endless_view(path: Path) -> None:
    with open_file(path):
        pass
    with sql(path) as file:
        file.execute("DROP TABLE answers")
        file.execute(
            "CREATE VIEW answers AS WITH RECURSIVE row(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM row) "
            "SELECT n || 'x' AS key, 'y' AS answer, 1 AS used FROM row"
        )


def a_torn_file(path: Path) -> None:
    with open_file(path) as file:
        for number in range(300):
            file.put(f"{number:064}", "x" * 500)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] + bytes(4096))


def an_overwritten_file(path: Path) -> None:
    with open_file(path) as file:
        for number in range(300):
            file.put(f"{number:064}", "x" * 500)
    data = bytearray(path.read_bytes())
    data[8192:40960] = b"\xa5" * 32768
    path.write_bytes(bytes(data))


def a_text_file(path: Path) -> None:
    path.write_text("not a database, and long enough to be taken for one" * 50)


def a_text_file_with_a_journal(path: Path) -> None:
    a_text_file(path)
    Path(f"{path}-journal").write_bytes(b"\xd9\xd5\x05\xf9" * 99)


BROKEN: dict[str, Callable[[Path], None]] = {
    "text": a_text_file,
    "text with a journal": a_text_file_with_a_journal,
    "foreign": a_foreign_file,
    "other columns": with_a_missing_column,
    "view": with_an_endless_view,
    "torn": a_torn_file,
    "overwritten": an_overwritten_file,
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_file_is_renamed_and_begun_anew(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    BROKEN[kind](path)
    broken = path.read_bytes()
    with open_file(path) as file:
        assert file.get("a") is None
        file.put("a", "one")
        assert file.get("a") == "one"
        (notice,) = file.notices

    assert notice.startswith("the judge's cache cache.sqlite was not a cache of answers (")
    assert notice.endswith("): renamed to cache.sqlite.broken-1, and a new one was created.")
    assert (tmp_path / "cache.sqlite.broken-1").read_bytes() == broken
    with open_file(path) as file:
        assert (file.get("a"), file.notices) == ("one", ())


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_file_that_is_only_read_is_left_alone(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    BROKEN[kind](path)
    broken = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    with open_file(path, writes=False) as file:
        assert file.get("a") is None
        assert len(file.notices) == 1

    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == broken


def test_a_second_broken_file_does_not_replace_the_first(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    for _ in range(2):
        path.write_text("broken" * 500)
        with open_file(path):
            pass

    assert names_in(tmp_path) == [f"cache.sqlite{ending}" for ending in ("", ".broken-1", ".broken-2")]


def test_an_empty_file_becomes_ours(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    path.touch()
    with open_file(path) as file:
        file.put("a", "one")
        assert (file.get("a"), file.notices) == ("one", ())


@pytest.mark.parametrize("where", ["folder", "file/cache.sqlite"])
def test_a_place_that_cannot_hold_a_file_is_a_notice(where: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with open_file(tmp_path / where) as file:
        file.put("a", "one")
        assert file.get("a") is None
        assert file.prune(max_age_days=1, max_bytes=1) == 0
        (notice,) = file.notices

    assert "is not used: " in notice


def test_a_file_that_breaks_while_it_is_open_is_a_notice(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    with open_file(path) as file:
        file.put("a", "one")
        with sql(path) as other:
            other.execute("DROP TABLE answers")
        assert file.get("a") is None
        file.put("b", "two")
        assert file.notices == (
            "the judge's cache cache.sqlite could not be used at times (no such table: answers).",
        )


def test_a_file_that_stays_locked_delays_only_one_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evalgate.llm.caching._LOCK_TIMEOUT_S", 2.0)
    with open_file(tmp_path / "cache.sqlite") as file, sql(tmp_path / "cache.sqlite") as other:
        other.execute("BEGIN EXCLUSIVE")
        began = time.monotonic()
        assert [file.get(str(number)) for number in range(8)] == [None] * 8
        took = time.monotonic() - began
        other.rollback()
        file.put("a", "one")
        assert file.get("a") == "one"

    assert 2 <= took < 5
    assert file.notices == (
        "the judge's cache cache.sqlite could not be used at times (database is locked).",
    )


def test_a_folder_that_stays_locked_does_not_hold_up_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evalgate.llm.caching._LOCK_TIMEOUT_S", 0.2)
    with lock_folder(tmp_path), open_file(tmp_path / "cache.sqlite") as file:
        file.put("a", "one")
        assert file.get("a") is None
        assert file.notices == (
            "the judge's cache cache.sqlite is not used: another process keeps its folder locked.",
        )


WRITER = """
import sys
from pathlib import Path
from evalgate.llm.caching import ResponseCache
with ResponseCache(Path(sys.argv[1]), writes=True, wall=lambda: 0) as file:
    for number in range(40):
        file.put(f"{sys.argv[2]}-{number}", "x" * 2000)
        assert file.get(f"{sys.argv[2]}-{number}")
    print(file.notices)
"""


@pytest.mark.parametrize("broken", [False, True])
def test_many_processes_lose_nothing(broken: bool, tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    if broken:
        path.write_text("broken" * 500)
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), name],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in "abcd"
    ]
    told = [writer.communicate() for writer in writers]

    assert [error for _, error in told] == [""] * 4
    assert sum("renamed" in said for said, _ in told) == broken
    with open_file(path) as file:
        assert all(file.get(f"{name}-{number}") for name in "abcd" for number in range(40))
    assert len(names_in(tmp_path)) == 1 + broken


def test_a_killed_writer_costs_at_most_its_last_answer(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    endless = WRITER.replace("range(40)", "range(10**9)").replace(
        "file.put", "print(number, flush=True); file.put"
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", endless, str(path), "a"], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    while int(writer.stdout.readline()) < 20:
        pass
    writer.kill()
    writer.communicate()
    with open_file(path) as file:
        assert all(file.get(f"a-{number}") for number in range(20))
        assert file.notices == ()


def forge(path: Path, answers: dict[str, str]) -> None:
    """Store answers in the file as another process would, with the right digests."""
    with open_file(path) as forger:
        for key, text in answers.items():
            forger.put(key, text)


def test_what_others_store_during_a_run_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    forge(path, {"old": "no", "changed": "no"})
    file = open_file(path)
    file.trust_stored_answers()
    forge(path, {"changed": "yes", "new": "yes"})
    with file:
        assert [file.get(key) for key in ("old", "changed", "new")] == ["no", None, None]
        forge(path, {"later": "yes"})
        assert file.get("later") is None
        file.put("new", "no")
        assert file.get("new") == "no"
        forge(path, {"new": "yes"})
        assert file.get("new") is None
        (notice,) = file.notices

    assert "holds answers of unknown origin" in notice
    with open_file(path) as file:
        assert file.get("later") == "yes", "the next run cannot know who stored an answer"


def test_a_file_that_appears_during_a_run_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "cache.sqlite"
    file = open_file(path)
    file.trust_stored_answers()
    assert names_in(tmp_path) == [], "nothing is created before the first question"
    forge(path, {"a": "yes"})
    with file:
        assert file.get("a") is None
        file.put("a", "no")
        assert file.get("a") == "no"


def test_a_killed_writer_leaves_its_answers_to_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    forge(path, {"a": "one"})
    killed = (
        "import os, sqlite3, sys; file = sqlite3.connect(sys.argv[1]); file.execute('PRAGMA cache_size = 1');"
    )
    killed += "file.execute('BEGIN'); file.execute(\"UPDATE answers SET answer = 'x'\");"
    killed += "[file.execute('INSERT INTO answers VALUES (?, ?, 1)', (str(each), 'y' * 4000)) for each in range(99)];"
    subprocess.run([sys.executable, "-c", killed + "os._exit(0)", str(path)], check=True)
    assert names_in(tmp_path) == ["cache.sqlite", "cache.sqlite-journal"], "a transaction that has not ended"
    file = open_file(path)
    file.trust_stored_answers()
    with file:
        assert (file.get("a"), file.notices) == ("one", ())


def test_what_nobody_asked_for_in_so_long_goes(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    with open_file(path, day=100) as file:
        for key in "abc":
            file.put(key, key)
    with open_file(path, day=120) as file:
        assert file.get("b") == "b"
    with open_file(path, day=131) as file:
        assert file.get("c") == "c"
        assert file.prune(max_age_days=30, max_bytes=10**9) == 1
        assert [file.get(key) for key in "abc"] == [None, "b", "c"]


def test_beyond_its_size_the_longest_unused_goes_and_the_file_shrinks(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    for day in range(100, 140):
        with open_file(path, day=day) as file:
            file.put(f"{day}", "x" * 10_000)
    full = path.stat().st_size
    with open_file(path, day=140) as file:
        assert file.get("100")
        assert file.prune(max_age_days=1000, max_bytes=50_300) == 35
        kept = [day for day in range(100, 140) if file.get(f"{day}")]

    assert kept == [100, 136, 137, 138, 139]
    assert path.stat().st_size < full / 4


# --- the model before the file ------------------------------------------------------------------------------


def remembering(inner: ScriptedModel, file: ResponseCache, **more: Any) -> CachingModel:
    place: dict[str, Any] = {"base_url": "http://judge/v1", "model": "judge", "parameters": {"top_p": 1}}
    place["compute_cost"] = lambda request, tokens: MeteredUsage.from_call(tokens, 0.25)
    place["redactor"] = LiveRedactor(Redactor.from_environment({"A_TOKEN": PLANTED}))
    return CachingModel(inner, file, **(place | more))


ANSWER = ModelAnswer(
    "yes ✓", "judge-1", Tokens(3, 4, 1), "length", (TokenChoice("yes", -0.5, (("no", -2.0),)),)
)

SPARED = ModelUsage(spared=1, spared_usage=Usage(3, 4, 0.25))


async def test_an_answer_is_paid_for_once(tmp_path: Path) -> None:
    inner = ScriptedModel(ANSWER)
    with open_file(tmp_path / "cache.sqlite") as file:
        model = remembering(inner, file)
        first = await model.ask(build_model_request("?"))
        assert (first, model.usage) == (ANSWER, ModelUsage())
    with open_file(tmp_path / "cache.sqlite") as file:
        model = remembering(inner, file)
        second = await model.ask(build_model_request("?"))

    assert second.cached
    assert (second.text, second.tokens, second.choices, second.finish, second.model) == (
        ANSWER.text, ANSWER.tokens, ANSWER.choices, ANSWER.finish, ANSWER.model,
    )  # fmt: skip
    assert (model.usage, len(inner.requests)) == (SPARED, 1)


async def test_who_asks_the_same_at_the_same_time_waits_for_one(tmp_path: Path) -> None:
    inner = ScriptedModel(failed("outage"), "yes")
    with open_file(tmp_path / "cache.sqlite") as file:
        model = remembering(inner, file)
        found = await asyncio.gather(
            *(model.ask(build_model_request("?")) for _ in range(4)), return_exceptions=True
        )

    assert [isinstance(each, JudgeError) for each in found] == [True, False, False, False], (
        "failures are not kept"
    )
    assert (len(inner.requests), model.usage.spared) == (2, 2)


WELL_KNOWN = "ghp_" + "a1B2c3D4e5F6" * 3


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ("?", f"yes, {PLANTED}"),
        ("?", f"yes, {PLANTED[:5]}\u200b{PLANTED[5:]}"),
        ("?", f"it says {WELL_KNOWN}"),
        ("?", "the password: hunter2hunter2"),
        ("he said\n::add-mask::zebra-crossing-77", "a zebra-crossing-77"),
    ],
)
async def test_an_answer_that_holds_a_secret_is_not_kept(asked: str, text: str, tmp_path: Path) -> None:
    inner = ScriptedModel(text, text, "yes")
    with open_file(tmp_path / "cache.sqlite") as file:
        model = remembering(inner, file)
        found = [await model.ask(build_model_request(asked)) for _ in range(2)]
        other = [await model.ask(build_model_request("and else?")) for _ in range(2)]

    assert [each.text for each in found] == [text, text], "who asked gets it as it is"
    assert [each.cached for each in (*found, *other)] == [False, False, False, True]
    assert (model.withheld, model.usage.spared) == (2, 1)
    kept = (tmp_path / "cache.sqlite").read_bytes().decode(errors="replace")
    assert "yes" in kept
    assert text not in kept


async def test_a_kept_answer_that_cannot_be_read_is_asked_for_again(tmp_path: Path) -> None:
    with open_file(tmp_path / "cache.sqlite") as file:
        model = remembering(ScriptedModel("yes"), file)
        file.put(model.compute_key(build_model_request("?")), '{"text": 3}')

        assert await model.ask(build_model_request("?")) == answered("yes")
        assert (await model.ask(build_model_request("?"))).cached


SCHEMA = AnswerSchema("a", {"type": "object"})
BASE = build_model_request("?", system="be fair", temperature=0)
OTHERS = {
    "message": build_model_request("!", system="be fair", temperature=0),
    "role": ModelRequest(
        (BASE.messages[0], *build_model_request("", system="?").messages[:1]), parameters={"temperature": 0}
    ),
    "parameter": build_model_request("?", system="be fair", temperature=1),
    "no parameter": build_model_request("?", system="be fair"),
    "model": ModelRequest(BASE.messages, "other", BASE.parameters),
    "schema": ModelRequest(BASE.messages, "", BASE.parameters, SCHEMA),
    "version": ModelRequest(BASE.messages, "", BASE.parameters, prompt_version="2"),
    "sample": ModelRequest(BASE.messages, "", BASE.parameters, sample=2),
    "attempt": ModelRequest(BASE.messages, "", BASE.parameters, attempt=2),
}


def test_all_that_an_answer_depends_on_is_in_its_key(tmp_path: Path) -> None:
    inner, file = ScriptedModel(), open_file(tmp_path / "cache.sqlite")
    model = remembering(inner, file)
    keys = {name: model.compute_key(request) for name, request in OTHERS.items()}
    keys["base"] = model.compute_key(BASE)
    keys["other address"] = remembering(inner, file, base_url="http://else/v1").compute_key(BASE)
    keys["other model"] = remembering(inner, file, model="else").compute_key(BASE)
    keys["other parameters"] = remembering(inner, file, parameters={"top_p": 0}).compute_key(BASE)

    assert len(set(keys.values())) == len(keys)
    assert all(len(key) == 64 for key in keys.values())


def test_what_an_answer_does_not_depend_on_is_not_in_its_key(tmp_path: Path) -> None:
    inner, file = ScriptedModel(), open_file(tmp_path / "cache.sqlite")
    one = remembering(inner, file, parameters={"a": 1, "b": {"x": 1, "y": 2}})
    other = remembering(inner, file, parameters={"b": {"y": 2, "x": 1}})

    assert one.compute_key(BASE) == other.compute_key(
        ModelRequest(BASE.messages, "judge", {"a": 1, **BASE.parameters})
    ), "the order of keys, and who sets a parameter"


def test_a_key_for_any_text(tmp_path: Path) -> None:
    model = remembering(ScriptedModel(), open_file(tmp_path / "cache.sqlite"))

    assert model.compute_key(build_model_request("\ud800")) != model.compute_key(
        build_model_request("\ud801")
    )


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE answers SET answer = replace(answer, 'yes', 'no!') WHERE key = 'a'",
        "UPDATE answers SET answer = (SELECT answer FROM answers WHERE key = 'b') WHERE key = 'a'",
        "UPDATE answers SET answer = 'yes' WHERE key = 'a'",
        "UPDATE answers SET answer = '' WHERE key = 'a'",
    ],
    ids=["changed", "another's", "without a digest", "empty"],
)
def test_an_answer_that_is_not_as_it_was_written_is_a_miss(tmp_path: Path, change: str) -> None:
    path = tmp_path / "cache.sqlite"
    with open_file(path) as file:
        file.put("a", "yes")
        file.put("b", "maybe")
    with sql(path) as other:
        other.execute(change)

    with open_file(path) as file:
        assert (file.get("a"), file.get("b")) == (None, "maybe")
        (notice,) = file.notices
        assert notice.startswith(
            "the judge's cache cache.sqlite holds damaged answers, which are requested again"
        )
