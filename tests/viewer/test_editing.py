"""Eval sets in the browser: look at cases, edit them next to what the agent did, save and undo."""

import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.core.errors import InvalidInputError
from evalgate.core.types import EvalCase, Reply, ToolCall, ToolResult
from evalgate.datasets.case_notes import read_case_notes
from evalgate.datasets.eval_set_file import edit_eval_set, open_eval_set
from evalgate.viewer.case_draft import change_draft, draft_case, format_json, read_draft
from evalgate.viewer.draft_builder import build_drafted_case, restore_line, restore_text
from evalgate.viewer.noted_cases import format_tags, parse_tags
from tests.browser import find_violations, has_sideways_scroll, save_picture
from tests.builders import a_case_result, a_record, a_run_result, a_turn_result
from tests.datasets.test_eval_set_file import ADK, FILES, GOALS
from tests.viewer.serving import create_viewer, open_client, serve_viewer, write_record

if TYPE_CHECKING:
    from httpx2 import Response
    from playwright.sync_api import Page

_DID = Reply(
    "Refunded 1.50.",
    (
        ToolCall("refund", {"order": 7, "amount": 1.5}, "call-0"),
        ToolResult("refund", {"ok": True}, "call-0"),
        ToolCall("mail", {"order": 8, "to": "me"}, "call-1"),
    ),
)
_HOSTILE = "\n\n </textarea><script>document.title = 'ran'</script>\r\n\u202eabc\u0007 {{ 7 * 7 }} &amp; \u2028 \U0001f600\t"


def _write_project(folder: Path, text: str = ADK) -> Path:
    path = folder / "evals" / "desk.evalset.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    run = a_run_result(
        a_turn_result("Refund order 7", actual=_DID), a_turn_result("Thanks", actual=Reply("Bye"))
    )
    write_record(folder / "results.json", a_record(a_case_result("late", eval_set_id="desk", runs=(run,))))
    return path


def _open_case(page: "Page", address: str, case: str = "late") -> None:
    page.goto(address)
    page.goto(f"{address.partition('?')[0]}sets/case?file=evals/desk.evalset.json&case={case}")


def test_a_failing_case_takes_what_the_agent_did_and_can_be_undone(page: "Page", tmp_path: Path) -> None:
    path = _write_project(tmp_path)
    with serve_viewer(tmp_path, ["results.json"]) as address:
        page.goto(address)
        page.goto(f"{address.partition('?')[0]}edit?set=desk&case=late")
        assert page.locator(".actual").first.inner_text().count("mail") == 1
        save_picture(page, "edit-case")
        assert find_violations(page) == []
        page.get_by_role("button", name="Take what the agent did as the expectation of turn 1").click()
        page.get_by_text("not saved").wait_for()
        assert path.read_bytes() == ADK.encode()
        page.get_by_role("button", name="Preview the change").click()
        page.locator(".file-diff .minus").first.wait_for()
        assert page.locator(".file-diff .minus").count() == 2
        save_picture(page, "edit-preview")
        assert find_violations(page) == []
        page.get_by_role("button", name="Save", exact=True).click()
        page.get_by_text("Saved.").wait_for()

        old, new = ADK.splitlines(), path.read_text().splitlines()
        changed = [(one, other) for one, other in zip(old, new, strict=True) if one != other]
        assert [other.strip() for _, other in changed] == [
            '"final_response": {"parts": [{"text": "Refunded 1.50."}], "role": "model"},',
            '{"args": {"order": 8, "to": "me"}, "name": "mail"}',
        ]
        page.get_by_role("button", name="Undo").click()
        page.get_by_text("The last change was undone.").wait_for()
        assert path.read_bytes() == ADK.encode()
        save_picture(page, "edit-set")
        page.get_by_role("button", name="Redo").click()
        assert "Refunded 1.50." in path.read_text()
    page.emulate_media(color_scheme="dark")


def test_forms_are_usable_with_the_keyboard_on_a_phone_and_in_the_dark(page: "Page", tmp_path: Path) -> None:
    path = _write_project(tmp_path)
    with serve_viewer(tmp_path, ["results.json"]) as address:
        page.set_viewport_size({"width": 360, "height": 740})
        page.emulate_media(color_scheme="dark")
        _open_case(page, address)
        assert not has_sideways_scroll(page)
        assert find_violations(page) == []
        save_picture(page, "edit-case-phone-dark")
        page.get_by_role("button", name="Take the argument to of call 2 of turn 1").focus()
        with page.expect_navigation():
            page.keyboard.press("Enter")
        assert json.loads(page.locator("#t0\\.c1\\.args").input_value()) == {"order": 7, "to": "me"}
        page.locator("#t1\\.user").focus()
        page.keyboard.press("Control+A")
        page.keyboard.type("Thank you")
        page.locator("#eval_id").focus()
        with page.expect_navigation():
            page.keyboard.press("Enter")  # the first button of the form
        page.get_by_text("This would change").wait_for()
        assert not has_sideways_scroll(page)
        page.get_by_role("button", name="Delete turn 1").focus()
        with page.expect_navigation():
            page.keyboard.press("Enter")
        page.get_by_role("button", name="Save", exact=True).focus()
        with page.expect_navigation():
            page.keyboard.press("Enter")
        page.get_by_text("Saved.").wait_for()
        case = open_eval_set(path, "x").find_case("late")
        assert [turn.user.text for turn in case.turns] == ["Thank you"]
        for name in ("/sets", "/sets/view?file=evals/desk.evalset.json", "/sets/new"):
            page.goto(address.partition("/?")[0] + name)
            assert not has_sideways_scroll(page), name
            assert find_violations(page) == [], name
            save_picture(page, f"edit{name.partition('?')[0].replace('/', '-')}-phone-dark")


def test_hostile_texts_go_through_the_forms_unchanged(page: "Page", tmp_path: Path) -> None:
    hostile = json.dumps(_HOSTILE)
    text = ADK.replace('"Refund order 7"', hostile).replace('"Done."', hostile).replace('"mail"', hostile)
    path = _write_project(tmp_path, text)
    with serve_viewer(tmp_path, ["results.json"]) as address:
        _open_case(page, address)
        marked = page.get_by_text("Holds invisible characters")
        assert marked.count() == 3
        marked.first.click()
        assert "\\u202eabc\\x07" in page.locator(".field details").first.inner_text()
        assert find_violations(page) == []
        page.get_by_role("button", name="Save", exact=True).click()
        page.get_by_text("There was nothing to save.").wait_for()
        page.get_by_role("button", name="Add a call to turn 2").click()
        page.locator("#t1\\.c0\\.args").fill('{"x": 1,}')
        page.get_by_role("button", name="Save", exact=True).click()
        assert page.locator("#t1\\.c0\\.name-problem").inner_text() == "must name a tool"
        assert "line 1, column" in page.locator("#t1\\.c0\\.args-problem").inner_text()
        assert page.locator("#t1\\.c0\\.args").input_value() == '{"x": 1,}'
        assert find_violations(page) == []
        save_picture(page, "edit-problems")
        page.locator("#t1\\.c0\\.name").fill("look")
        page.locator("#t1\\.c0\\.args").fill('{"x": 1}')
        page.locator("#t1\\.user").fill("\n two\nlines")
        page.get_by_role("button", name="Save", exact=True).click()
        page.get_by_text("Saved.").wait_for()
        case = open_eval_set(path, "x").find_case("late")
        assert case.turns[0].user.text == case.turns[0].expected.response == _HOSTILE
        assert case.turns[0].expected.tool_calls[1].name == _HOSTILE
        assert case.turns[1].user.text == "\n two\nlines"
        assert case.turns[1].expected.tool_calls == (ToolCall("look", {"x": 1}),)
        assert page.title() != "ran"


def test_a_conflict_loses_nothing_that_was_typed(page: "Page", tmp_path: Path) -> None:
    path = _write_project(tmp_path)
    with serve_viewer(tmp_path, ["results.json"]) as address:
        _open_case(page, address)
        page.locator("#t1\\.user").fill("My words")
        path.write_text(ADK.replace('"Desk"', '"Help desk"'))
        page.get_by_role("button", name="Save", exact=True).click()
        page.get_by_text("This case is the same in it").wait_for()
        assert page.locator("#t1\\.user").input_value() == "My words"
        assert "My words" not in path.read_text()
        save_picture(page, "edit-conflict")
        path.write_text(ADK.replace('"Thanks"', '"Other words"'))
        page.get_by_role("button", name="Save", exact=True).click()
        page.get_by_text("This case was changed in it, too").wait_for()
        page.get_by_role("button", name="Save", exact=True).click()
        page.get_by_text("Saved.").wait_for()
        assert "My words" in path.read_text()

        page.locator("#t1\\.user").fill("More words")
        path.write_text(ADK.replace('"late"', '"later"'))
        page.get_by_role("button", name="Save", exact=True).click()
        page.get_by_text("This case is not in the file any more").wait_for()
        assert page.locator("#t1\\.user").input_value() == "More words"


def test_sets_and_cases_are_created_duplicated_moved_and_deleted(page: "Page", tmp_path: Path) -> None:
    with serve_viewer(tmp_path) as address:
        page.goto(address)
        page.get_by_role("link", name="Eval sets").click()
        page.get_by_role("link", name="New eval set").click()
        page.get_by_role("button", name="Create").click()
        page.get_by_label("Id", exact=True).fill("first")
        page.get_by_label("First message of the user").fill("Hi")
        page.get_by_role("button", name="Add the case").click()
        page.get_by_label("Response").fill("Hello")
        page.get_by_role("button", name="Save", exact=True).click()
        page.get_by_role("button", name="Duplicate").click()
        page.get_by_text("This is the copy.").wait_for()
        page.get_by_role("button", name="Move up").click()
        path = tmp_path / "evals" / "new.evalset.json"
        assert [case.eval_id for case in open_eval_set(path, "x").eval_set.cases] == ["first_copy", "first"]
        page.get_by_label("Id of the case").fill("first")
        page.get_by_role("button", name="Save", exact=True).click()
        assert "first" in page.locator("#eval_id-problem").inner_text()
        page.get_by_role("button", name="Delete …").click()
        page.get_by_role("heading", name="Delete the case first_copy?").wait_for()
        save_picture(page, "edit-delete")
        page.get_by_role("button", name="Delete it").click()
        case = open_eval_set(path, "x").eval_set.cases[0]
        assert (case.eval_id, case.turns[0].expected.response) == ("first", "Hello")
        page.get_by_role("link", name="Eval sets", exact=True).first.click()
        page.get_by_role("link", name="New eval set").click()
        page.get_by_label("File, in the project's folder").fill("../out.evalset.json")
        page.get_by_role("button", name="Create").click()
        assert "no path below the project's folder" in page.get_by_role("alert").inner_text()


@pytest.mark.parametrize(
    ("action", "goals"),
    [
        ("take-turn.0", ["refund", "Refunded 1.50.", "", "mail"]),
        ("take-call.0.1", ["refund", "Done", "", "mail"]),
        ("take-response.0", ["refund", "Refunded 1.50.", ""]),
        ("delete-call.0.0", ["Done", ""]),
    ],
)
def test_what_the_agent_did_becomes_the_goals_of_a_single_turn(
    tmp_path: Path, action: str, goals: list[str]
) -> None:
    file = open_eval_set(_write_project(tmp_path, GOALS), "desk.evalset.json")
    base, *others = file.eval_set.cases
    draft = draft_case(base)
    change_draft(draft, action, [_DID])

    case, errors = build_drafted_case(draft, base)

    assert errors == {}
    journey = edit_eval_set(file, [case, *others]).eval_set.cases[0].journey
    assert journey
    assert [goal.tool_name or goal.response or "" for goal in journey.goals] == goals
    draft.goals[0].args = "{}"
    assert list(build_drafted_case(draft, base)[1]) == ["t0.response"]


def test_goals_of_several_turns_take_no_reply_of_one(tmp_path: Path) -> None:
    _write_project(tmp_path, GOALS)
    run = a_run_result(a_turn_result("Hi", actual=_DID), a_turn_result("Bye", actual=_DID))
    case = a_case_result("greet", eval_set_id="evals/desk.evalset.json", runs=(run,))
    write_record(tmp_path / "results.json", a_record(case))
    client = open_client(create_viewer(tmp_path, "results.json"))
    page = client.get("/sets/case?file=evals/desk.evalset.json&case=greet").text
    assert "Refunded 1.50." in page
    assert 'value="take-' not in page


def test_goals_are_edited_in_a_dataset_of_orchestrate(page: "Page", tmp_path: Path) -> None:
    path = _write_project(tmp_path, GOALS)
    with serve_viewer(tmp_path) as address:
        _open_case(page, address, "refund")
        page.locator("#g1\\.keywords").fill("done\nrefund")
        page.get_by_role("button", name="Add a goal").click()
        page.locator("#g3\\.name").fill("look")
        page.locator("#g3\\.tool").fill("look")
        save_picture(page, "edit-goals")
        assert find_violations(page) == []
        page.get_by_role("button", name="Delete goal 3").click()
        page.locator("#g2\\.later").fill("nonsense")
        page.get_by_role("button", name="Save", exact=True).click()
        assert "there is no goal 'nonsense'" in page.locator("#g2\\.later-problem").inner_text()
        assert page.locator("#g0\\.later").input_value() == "answer"
        page.locator("#g0\\.later").fill("")
        page.locator("#g2\\.later").fill("call-1\nanswer")
        page.get_by_role("button", name="Save", exact=True).click()
        page.get_by_text("Saved.").wait_for()
        journey = open_eval_set(path, "x").find_case("refund").journey
        assert journey
        assert [goal.name for goal in journey.goals] == ["call-1", "answer", "look"]
        assert journey.goals[1].keywords == ("done", "refund")
        assert journey.order == {"call-1": (), "answer": (), "look": ("call-1", "answer")}


# --- without a browser --------------------------------------------------------------------------------------


def _send_form(case: EvalCase) -> dict[str, tuple[str, ...]]:
    """Return the form of a case as a browser sends it."""
    draft = draft_case(case)
    fields = {"eval_id": draft.eval_id, "start": draft.start, "plan": draft.plan, "story": draft.story}
    form: dict[str, tuple[str, ...]] = {name: (text,) for name, text in fields.items()}
    form["final_state"] = (draft.final_state,)
    rubrics = [("", rubric) for rubric in draft.rubrics]
    for at, turn in enumerate(draft.turns):
        form |= {
            f"t{at}.source": (str(at),),
            f"t{at}.user": (turn.user,),
            f"t{at}.response": (turn.response,),
        }
        form[f"t{at}.kept"] = tuple(map(str, turn.kept))
        for number, call in enumerate(turn.calls):
            name = f"t{at}.c{number}"
            form |= {
                f"{name}.source": (str(number),),
                f"{name}.name": (call.name,),
                f"{name}.args": (call.args,),
            }
        rubrics += [(f"t{at}.", rubric) for rubric in turn.rubrics]
    for prefix, rubric in rubrics:
        name = f"{prefix}r{rubric.source}"
        form |= {f"{name}.source": (str(rubric.source),), f"{name}.text": (rubric.text,)}
        form |= {f"{name}.id": (rubric.rubric_id,), f"{name}.metric": (rubric.metric,)}
    for goal in draft.goals:
        for key in ("source", "type", "name", "tool", "args", "response", "keywords", "check", "later"):
            form[f"g{goal.source}.{key}"] = (str(getattr(goal, key)),)
    return {name: tuple([text.replace("\n", "\r\n") for text in texts]) for name, texts in form.items()}


def test_keywords_of_a_search_are_fields_of_the_form(tmp_path: Path) -> None:
    goal = '{"type": "conversational_search", "name": "hello", "keywords": ["30 days"]}'
    before = '{"type": "text", "name": "hello", "summary": "Hello"}'
    _write_project(tmp_path, GOALS.replace(before, goal))
    page = open_client(create_viewer(tmp_path)).get("/sets/case?file=evals/desk.evalset.json&case=greet").text
    assert re.search(r'<textarea [^>]*name="g0.keywords"[^>]*>\s*30 days</textarea>', page)


@pytest.mark.parametrize("name", FILES)
def test_a_form_that_was_not_touched_changes_nothing(name: str, tmp_path: Path) -> None:
    path = _write_project(tmp_path, FILES[name])
    for case in open_eval_set(path, "x").eval_set.cases:
        built, errors = build_drafted_case(read_draft(_send_form(case)), case)
        assert (built, errors) == (case, {})


def test_new_arguments_of_a_goal_keep_its_arg_matching(tmp_path: Path) -> None:
    before = '"args": {"order": 7}'
    path = _write_project(tmp_path, GOALS.replace(before, f'{before}, "arg_matching": {{"order": "fuzzy"}}'))
    case = open_eval_set(path, "x").eval_set.cases[0]
    draft = draft_case(case)
    draft.goals[0].args = '{"order": 8}'
    built, errors = build_drafted_case(draft, case)
    assert errors == {}
    assert built.journey is not None
    goal = built.journey.goals[0]
    assert (goal.args, goal.arg_matching) == ({"order": 8}, {"order": "fuzzy"})


@pytest.mark.parametrize("typed", ["", " "])
@pytest.mark.parametrize(("name", "held"), [("adk", '"kind"'), ("trpc", '"r"')])
def test_added_rubrics_without_an_id_get_free_ones(name: str, held: str, typed: str, tmp_path: Path) -> None:
    path = _write_project(tmp_path, FILES[name].replace(held, '"rubric_2"'))
    file = open_eval_set(path, "x")
    case = file.eval_set.cases[0]
    form = _send_form(case)
    for number in (1, 2):
        form |= {f"r{number}.text": (f"Is {number}.",), f"r{number}.metric": (case.rubrics[0].metric,)}
        form |= {f"r{number}.id": (typed,), f"r{number}.source": ("",)}
    built, errors = build_drafted_case(read_draft(form), case)
    edited = edit_eval_set(file, [built, *file.eval_set.cases[1:]]).eval_set.cases[0]
    assert errors == {}
    assert [rubric.rubric_id for rubric in edited.rubrics] == ["rubric_2", "rubric_3", "rubric_4"]


@pytest.mark.parametrize(("held", "typed"), [("1", "true"), ("[0]", "[0.0]")])
@pytest.mark.parametrize("name", [name for name in FILES if name != "trace"])
def test_the_type_of_a_number_is_a_change(name: str, held: str, typed: str, tmp_path: Path) -> None:
    path = _write_project(tmp_path, FILES[name])
    for value in (held, typed):
        file = open_eval_set(path, "x")
        case = file.eval_set.cases[0]
        draft = draft_case(case)
        if case.journey is None:
            next(turn.calls[0] for turn in draft.turns if turn.calls).args = f'{{"n": {value}}}'
        else:
            next(goal for goal in draft.goals if goal.type == "tool_call").args = f'{{"n": {value}}}'
        if name == "adk":
            draft.final_state = f'{{"state": {value}}}'
        built, errors = build_drafted_case(draft, case)
        assert errors == {}
        path.write_bytes(edit_eval_set(file, [built, *file.eval_set.cases[1:]]).data)
    (one,) = (draft_case(case) for case in open_eval_set(path, "x").eval_set.cases[:1])
    parts = [*(call.args for turn in one.turns for call in turn.calls), *(goal.args for goal in one.goals)]
    assert format_json({"n": json.loads(typed)}) in parts
    assert name != "adk" or one.final_state == format_json({"state": json.loads(typed)})


@given(st.text(max_size=20))
def test_texts_come_back_from_a_browser_as_they_were(text: str) -> None:
    sent = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")
    assert restore_text(sent, text) == text
    assert restore_line(sent.replace("\n", ""), text) == text
    assert restore_text("a\nb", "x\r\ny") == "a\r\nb"


def _find_sure(page: str) -> str:
    """Return what the page that asks sends if one confirms."""
    found = re.search('name="sure" value="([^"]+)"', page)
    assert found is not None
    return found[1]


def test_tags_are_kept_in_the_notes_which_follow_new_names_and_undo(tmp_path: Path) -> None:
    path = _write_project(tmp_path)
    notes = path.with_name("desk.cases.yaml")
    notes.write_text("# ours\ncases:\n  short:  # one turn\n    source: http://x/1\n")
    viewer = create_viewer(tmp_path)
    client, token = open_client(viewer), viewer.access.csrf_token

    def send(address: str, case: str, **fields: str) -> None:
        answer = client.post(
            address, params={"file": "evals/desk.evalset.json", "case": case}, data={"csrf": token, **fields}
        )
        assert answer.status_code == 303, answer.text

    send("/sets/case/tags", "short", tags="smoke, billing")
    send("/sets/case/tags", "late", tags="slow")
    assert 'name="known" value="slow"' in client.get("/sets/case?file=evals/desk.evalset.json&case=late").text
    tagged = notes.read_text()
    assert tagged.startswith("# ours\ncases:\n  short:  # one turn\n    tags: [smoke, billing]\n    source:")
    assert read_case_notes(notes, "x")[0].cases["late"].tags == ("slow",)
    send("/sets/case/tags", "late", known="slow", tags="")
    assert read_case_notes(notes, "x")[0].cases["late"].tags == ()
    before = notes.read_text()

    case = open_eval_set(path, "x").find_case("short")
    form = {name: texts[0] for name, texts in _send_form(case).items() if texts}
    send(
        "/sets/case",
        "short",
        **{**form, "eval_id": "brief", "do": "save", "digest": open_eval_set(path, "x").digest},
    )
    assert set(read_case_notes(notes, "x")[0].cases) == {"brief", "late"}
    address = "/sets/case/move?file=evals/desk.evalset.json&case=brief"
    shown = client.post(address, data={"csrf": token, "do": "delete"}).text
    assert "source: http://x/1" in shown
    sure = _find_sure(shown)
    text = notes.read_text()
    notes.write_text(text + "# an opinion that was never shown\n")
    changed = client.post(address, data={"csrf": token, "do": "delete", "sure": sure})
    assert (changed.status_code, "changed by something else" in changed.text) == (409, True)
    notes.write_text(text)
    send("/sets/case/move", "brief", do="delete", sure=sure)
    assert set(read_case_notes(notes, "x")[0].cases) == {"late"}
    send("/sets/undo", "")
    send("/sets/undo", "")
    assert (path.read_bytes(), notes.read_text()) == (ADK.encode(), before)
    send("/sets/undo", "")
    assert notes.read_text() == tagged
    refused = client.post(
        "/sets/case/tags?file=evals/desk.evalset.json&case=late",
        data={"csrf": token, "known": "", "tags": "my words"},
    )
    assert refused.status_code == 409
    assert "were changed to \u201cslow\u201d meanwhile" in refused.text
    assert 'value="my words"' in refused.text
    send("/sets/undo", "")
    send("/sets/undo", "")
    assert notes.read_text() == "# ours\ncases:\n  short:  # one turn\n    source: http://x/1\n"


@pytest.mark.parametrize(
    ("tags", "line"),
    [
        ([], ""),
        (["slow"], "slow"),
        (["slow", "two words"], "slow, two words"),
        (["a, b", 'say "hi"', "c"], '"a, b", "say ""hi""", c'),
        (["a\u2028b", "c"], "a\u2028b, c"),
    ],
)
def test_tags_are_written_on_one_line_and_read_back(tags: list[str], line: str) -> None:
    assert format_tags(tags) == line
    assert parse_tags(line) == tags


def test_tags_are_read_as_a_person_writes_them() -> None:
    assert parse_tags(' a,, b ,"c , d"\n,') == ["a", "b", "c , d"]
    assert parse_tags('an "inner" word') == ['an "inner" word']
    with pytest.raises(InvalidInputError, match="the tags cannot be read"):
        parse_tags('a, "open, b')


def test_a_copy_of_a_case_is_observed_tagged_and_checked_as_the_case_is(tmp_path: Path) -> None:
    path = _write_project(tmp_path)
    notes = path.with_name("desk.cases.yaml")
    text = (
        "cases:\n  late: # seen\n    status: observed\n    imported: 2026-11-23\n    tags: [slow]\n"
        "    checks:\n      polite: {response: {contains: please}}\n"
        "    alternatives:\n      - turns: [{response: Later.}, {}]\n"
    )
    notes.write_text(text)
    viewer = create_viewer(tmp_path)
    client, token = open_client(viewer), viewer.access.csrf_token

    def duplicate(case: str) -> "Response":
        address = f"/sets/case/move?file=evals/desk.evalset.json&case={case}"
        return client.post(address, data={"csrf": token, "do": "duplicate"})

    assert duplicate("late").status_code == 303
    held = read_case_notes(notes, "x")[0].cases
    assert held["late_copy"] == held["late"]
    assert notes.read_text().startswith(text)
    assert duplicate("short").status_code == 303
    assert set(read_case_notes(notes, "x")[0].cases) == {"late", "late_copy"}

    notes.write_text("cases: {late: {status: odd}}\n")
    before = path.read_bytes()
    refused = duplicate("late")
    assert refused.status_code == 422
    assert "mend the notes first" in refused.text
    fields = _send_form(open_eval_set(path, "x").find_case("late"))
    form = {name: texts[0] for name, texts in fields.items() if texts}
    more = {"do": "save", "digest": open_eval_set(path, "x").digest, "eval_id": "new"}
    refused = client.post(
        "/sets/case?file=evals/desk.evalset.json&case=late", data={"csrf": token, **form, **more}
    )
    assert (refused.status_code, path.read_bytes()) == (422, before)
    assert "mend the notes first" in refused.text


def test_a_case_is_quarantined_with_owner_reason_and_last_day(tmp_path: Path) -> None:
    _write_project(tmp_path)
    (tmp_path / "evalgate.yaml").write_text(
        "version: 1\neval_sets: [evals]\ngate: {quarantine: quarantine.yaml}\ncriteria: {response_match_score: 1}\n"
    )
    viewer = create_viewer(tmp_path)
    client, token = open_client(viewer), viewer.access.csrf_token
    address = "/sets/case/quarantine?file=evals/desk.evalset.json&case=late"
    fields = {"csrf": token, "do": "set", "owner": "billing", "reason": "down: <b>", "expires": "soon"}

    fields["digest"] = hashlib.sha256(b"").hexdigest()
    refused = client.post(address, data=fields)
    assert refused.status_code == 422
    assert "the last day of the quarantine" in refused.text
    assert "down: &lt;b&gt;" in refused.text
    assert not (tmp_path / "quarantine.yaml").exists()
    assert client.post(address, data={**fields, "expires": "2026-12-31"}).status_code == 303
    expected = '- case: "late"\n  owner: "billing"\n  reason: "down: <b>"\n  expires: 2026-12-31\n'
    assert (tmp_path / "quarantine.yaml").read_text() == expected
    shown = client.get(address.replace("/quarantine", "")).text
    assert "End the quarantine" in shown
    stale = client.post(address, data={**fields, "do": "end"})
    assert stale.status_code == 409
    assert "was changed by something else" in stale.text
    assert (tmp_path / "quarantine.yaml").read_text() == expected
    digest = hashlib.sha256(expected.encode()).hexdigest()
    assert f'value="{digest}"' in shown
    assert client.post(address, data={**fields, "do": "end", "digest": digest}).status_code == 303
    assert (tmp_path / "quarantine.yaml").read_text() == ""
    for _ in range(2):
        undone = client.post("/sets/undo?file=evals/desk.evalset.json", data={"csrf": token})
        assert undone.status_code == 303
    assert not (tmp_path / "quarantine.yaml").exists()


def _rename_case(folder: Path, path: Path, eval_id: str) -> "Response":
    viewer = create_viewer(folder)
    client, token = open_client(viewer), viewer.access.csrf_token
    fields = _send_form(open_eval_set(path, "x").find_case("late"))
    form = {name: texts[0] for name, texts in fields.items() if texts}
    more = {"do": "save", "digest": open_eval_set(path, "x").digest, "eval_id": eval_id}
    address = "/sets/case?file=evals/desk.evalset.json&case=late"
    return client.post(address, data={"csrf": token, **form, **more})


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("- {case: late, owner: a}\n", '- {case: "desk:later", owner: a}\n'),
        ("- case: |-\n    late\n  owner: a\n", '- case: "desk:later"\n  owner: a\n'),
        ("- case: late\n- case: late\n", '- case: "desk:later"\n- case: "desk:later"\n'),
        ("- &a {case: late}\n- {<<: *a, owner: b}\n", '- &a {case: "desk:later"}\n- {<<: *a, owner: b}\n'),
        ("- case: &a late\n  owner: *a\n", None),
    ],
)
def test_a_quarantine_that_follows_reaches_no_other_case(
    tmp_path: Path, before: str, after: str | None
) -> None:
    path = _write_project(tmp_path)
    other = path.read_text().replace('"eval_set_id": "desk"', '"eval_set_id": "other"')
    (path.parent / "other.evalset.json").write_text(other.replace('"late"', '"later"'))
    (tmp_path / "evalgate.yaml").write_text(
        "version: 1\neval_sets: [evals]\ngate: {quarantine: quarantine.yaml}\ncriteria: {response_match_score: 1}\n"
    )
    (tmp_path / "quarantine.yaml").write_text(before)

    answer = _rename_case(tmp_path, path, "later")

    assert answer.status_code == (422 if after is None else 303)
    assert (tmp_path / "quarantine.yaml").read_text() == (after or before)


@pytest.mark.parametrize("pattern", ["late", "desk:late", "evals/desk.evalset.json:late"])
@pytest.mark.parametrize("twin", [False, True])
def test_a_quarantine_follows_its_case(tmp_path: Path, pattern: str, twin: bool) -> None:
    path = _write_project(tmp_path)
    if twin:
        other = path.read_text().replace('"eval_set_id": "desk"', '"eval_set_id": "other"')
        (path.parent / "other.evalset.json").write_text(other)
    (tmp_path / "evalgate.yaml").write_text(
        "version: 1\neval_sets: [evals]\ngate: {quarantine: quarantine.yaml}\ncriteria: {response_match_score: 1}\n"
    )
    text = f"# ours\n- {{owner: a, case: {pattern}, reason: b, expires: 2026-12-31}}\n- case: 'l*' # all\n"
    (tmp_path / "quarantine.yaml").write_text(text)
    assert _rename_case(tmp_path, path, "later").status_code == 303
    stays = twin and pattern == "late"
    renamed = text if stays else text.replace(pattern, json.dumps(f"{pattern}r"))
    assert (tmp_path / "quarantine.yaml").read_text() == renamed

    viewer = create_viewer(tmp_path)
    client, token = open_client(viewer), viewer.access.csrf_token
    gone = {"csrf": token, "do": "delete"}
    address = "/sets/case/move?file=evals/desk.evalset.json&case=later"
    page = client.post(address, data=gone).text
    sure = re.search(r'name="sure" value="([^"]+)"', page)
    assert sure is not None, page
    assert client.post(address, data={**gone, "sure": sure[1]}).status_code == 303
    left = text if stays else "# ours\n- case: 'l*' # all\n"
    assert (tmp_path / "quarantine.yaml").read_text() == left


_NOTES = """# imported
cases:
  late:
    status: observed
    source: https://traces.example/t/1?a=1&b=2
    imported: 2026-11-23
  short:
    status: observed  # look twice
    tags: [vip]
    source: javascript:alert(1)
"""


def test_observed_cases_are_reviewed_one_by_one(page: "Page", tmp_path: Path) -> None:
    path = _write_project(tmp_path)
    notes = path.with_name("desk.cases.yaml")
    notes.write_text(_NOTES)
    with serve_viewer(tmp_path, ["results.json"]) as address:
        page.goto(address)
        page.get_by_role("link", name="Eval sets").click()
        page.get_by_role("link", name="2", exact=True).click()
        assert page.locator(".set-cases tbody tr").count() == 2
        page.get_by_text("2 observed cases are not reviewed yet").wait_for()
        assert page.locator(".tag").inner_text() == "vip"
        links = page.locator(".set-cases a[rel]").evaluate_all("all => all.map(each => each.href)")
        assert links == ["https://traces.example/t/1?a=1&b=2"]
        save_picture(page, "review-set")
        assert find_violations(page) == []
        page.get_by_role("link", name="Review", exact=True).click()
        assert page.get_by_role("link", name="Open the recorded trace").get_attribute("href") == links[0]
        save_picture(page, "review-case")
        assert find_violations(page) == []
        page.locator("#t1\\.response").fill("You are welcome")
        page.get_by_role("button", name="Accept as expected").click()
        page.get_by_text("late is expected now. This is the next case to review.").wait_for()
        page.get_by_role("heading", name="short").wait_for()
        assert page.get_by_role("link", name="Open the recorded trace").count() == 0
        assert "javascript:alert(1)" in page.locator(".review").inner_text()
        assert open_eval_set(path, "x").find_case("late").turns[1].expected.response == "You are welcome"
        accepted = notes.read_text()
        assert accepted == _NOTES.replace("observed\n    source: https", "expected\n    source: https")
        page.set_viewport_size({"width": 360, "height": 740})
        page.emulate_media(color_scheme="dark")
        assert not has_sideways_scroll(page)
        save_picture(page, "review-case-phone-dark")
        page.get_by_role("button", name="Drop").click()
        page.get_by_text("short was dropped. No case is left to review.").wait_for()
        assert "short" not in {case.eval_id for case in open_eval_set(path, "x").eval_set.cases}
        assert "javascript:alert(1)" in read_case_notes(notes, "x")[0].dropped
        with page.expect_navigation():
            page.get_by_role("button", name="Undo the last change").click()
        assert notes.read_text() == accepted
        with page.expect_navigation():
            page.get_by_role("button", name="Undo the last change").click()
        assert (path.read_bytes(), notes.read_text()) == (ADK.encode(), _NOTES)
        notes.write_text("cases: {late: {status: wrong}}")
        page.reload()
        assert "case notes cannot be read" in page.get_by_role("alert").inner_text()


@pytest.mark.parametrize("name", ["other/new.evalset.json", "evals/.new.evalset.json"])
@pytest.mark.parametrize("has_sets", [True, False])
def test_no_eval_set_is_created_where_no_run_reads_it(name: str, has_sets: bool, tmp_path: Path) -> None:
    if has_sets:
        _write_project(tmp_path)
    (tmp_path / "evalgate.yaml").write_text("eval_sets: ['evals/**/*.evalset.json']\n")
    viewer = create_viewer(tmp_path)
    fields = {"csrf": viewer.access.csrf_token, "name": name, "format": "adk"}
    before = sorted(tmp_path.rglob("*"))
    refused = open_client(viewer).post("/sets/new", data=fields)
    assert refused.status_code == 422
    assert "is not among the eval sets that a run reads (evals/**/*.evalset.json)" in refused.text
    assert sorted(tmp_path.rglob("*")) == before


def test_no_eval_set_is_created_behind_a_link_to_itself(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    viewer = create_viewer(tmp_path)
    fields = {"csrf": viewer.access.csrf_token, "name": "loop/new.evalset.json", "format": "adk"}
    refused = open_client(viewer).post("/sets/new", data=fields)
    assert refused.status_code == 422
    assert "loop/new.evalset.json" in refused.text


def test_only_listed_files_are_opened(tmp_path: Path) -> None:
    _write_project(tmp_path)
    (tmp_path / "secret.json").write_text(ADK)
    client = open_client(create_viewer(tmp_path))

    for file in ("secret.json", "../secret.json", "/etc/passwd", "evals/../secret.json", ""):
        answer = client.get("/sets/view", params={"file": file})
        assert answer.status_code == 404
        assert "no eval set of this project" in answer.text
    token = client.app.state.viewer.access.csrf_token  # type: ignore[attr-defined]
    sent = client.post(
        "/sets/case?file=evals/desk.evalset.json&case=late", data={"csrf": token, "do": "take-x.9"}
    )
    assert sent.status_code == 404
    assert "there is no button" in sent.text
