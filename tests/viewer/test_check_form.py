"""The checks of a case in the form: nothing is lost, wrong ones are named at their field, and calls make some."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from evalgate.config.schema.checks import CheckConditions
from evalgate.core.types import ToolCall
from evalgate.datasets.case_notes import read_case_notes
from evalgate.viewer.check_draft import (
    DraftCheck,
    build_checks,
    draft_checks,
    forbid_tool,
    read_checks,
    require_call,
)
from tests.browser import find_violations, has_sideways_scroll, save_picture
from tests.datasets.test_eval_set_file import ADK
from tests.viewer.serving import create_viewer, open_client, serve_viewer
from tests.viewer.test_editing import _HOSTILE, _open_case, _write_project

if TYPE_CHECKING:
    from playwright.sync_api import Page

DOCS = Path(__file__).parents[2] / "docs/checks.md"


def send_form(drafts: list[DraftCheck]) -> dict[str, tuple[str, ...]]:
    """Return the fields that a browser sends for the checks of a page that was not touched."""
    form: dict[str, str] = {}
    for at, draft in enumerate(drafts):
        form |= {f"k{at}.source": draft.source, f"k{at}.name": draft.name, f"k{at}.rest": draft.rest}
        form |= {f"k{at}.{path}": text for path, text in draft.fields.items()}
        for number, each in enumerate(draft.values):
            form |= {
                f"k{at}.a{number}.{key}": getattr(each, key) for key in ("tool", "path", "test", "value")
            }
    return {name: (text.replace("\n", "\r\n"),) for name, text in form.items()}


def list_documented_checks() -> dict[str, dict[str, Any]]:
    blocks = DOCS.read_text().split("```yaml\n")[1:]
    found = [yaml.safe_load(block.partition("```")[0]) for block in blocks]
    return {name: check for each in found for name, check in (each or {}).get("checks", {}).items()}


def test_a_form_that_was_not_touched_changes_nothing_and_holds_everything() -> None:
    checks = list_documented_checks()
    assert len(checks) > 6
    drafts = read_checks(send_form(draft_checks(checks)))
    assert build_checks(drafts, checks) == (checks, {})
    for draft in drafts:
        draft.source = ""  # now each is made of its fields
    built, errors = build_checks(drafts, {})
    assert errors == {}
    for name, check in checks.items():
        conditions = {key: value for key, value in check.items() if key not in {"ids", "tags"}}
        made = {key: value for key, value in built[name].items() if key not in {"ids", "tags"}}
        assert CheckConditions.model_validate(made) == CheckConditions.model_validate(conditions), name


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | TEXTS,
    lambda each: st.lists(each, max_size=3) | st.dictionaries(TEXTS, each, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(
        st.sampled_from(["tools", "response", "args", "state", "turn"]),
        JSON
        | st.dictionaries(
            st.sampled_from(["require", "max", "contains", "matches", "t\n", "pay", "x"]), JSON, max_size=3
        ),
        max_size=4,
    )
)
def test_any_check_survives_the_form(check: dict[str, Any]) -> None:
    drafts = draft_checks({"a": check})
    held: Mapping[str, Mapping[str, Any]] = {"a": check}
    built, errors = build_checks(read_checks(send_form(drafts)), held)
    assert (built, errors) == ({"a": check}, {})


def test_calls_become_checks() -> None:
    call = ToolCall("pay[x]", {"amount": 1e22, "to.name": "me", "note": None})
    forbidden, required = forbid_tool(call, []), require_call(call, [DraftCheck(name="calls_pay_x_")])
    built, errors = build_checks([forbidden, required, require_call(ToolCall("look", {}), [])], {})
    assert errors == {}
    assert built == {
        "no_pay_x_": {"tools": {"forbid": ["pay[[]x]"]}},
        "calls_pay_x__2": {
            "args": {"pay[[]x]": {"amount": 1e22, "to.name": "me", "note": None}},
            "calls": "some",
        },
        "calls_look": {"tools": {"require": ["look"]}},
    }
    lines = ToolCall("a\nb", {"x": {"y": 1}})
    assert build_checks([forbid_tool(lines, []), require_call(lines, [])], {})[0] == {
        "no_a_b": {"tools": {"forbid": ["a\nb"]}},
        "calls_a_b": {"args": {"a\nb": {"x": {"equals": {"y": 1}}}}, "calls": "some"},
    }
    odd = require_call(ToolCall("pay", {"a\nb": 1}), [])
    assert build_checks([odd], {})[0]["calls_pay"]["args"] == {"pay": {"a\nb": 1}}


def test_a_wrong_check_is_named_at_its_field_and_nothing_is_saved(tmp_path: Path) -> None:
    _write_project(tmp_path)
    (tmp_path / "evalgate.yaml").write_text("eval_sets: [evals]\nchecks: {taken: {tools: {forbid: x}}}\n")
    viewer = create_viewer(tmp_path, "results.json")
    client = open_client(viewer)

    def post(fields: Mapping[str, str]) -> dict[str, str]:
        data = {"csrf": viewer.access.csrf_token, "do": "save", "eval_id": "short", **fields}
        answer = client.post("/sets/case?file=evals/desk.evalset.json&case=short", data=data)
        assert answer.status_code == 422
        marked = answer.text.split('class="problem" id="')[1:]
        return {
            each.partition('-problem"')[0]: each.partition(">")[2].partition("</p>")[0] for each in marked
        }

    two = {"k0.name": "a b", "k1.name": "taken"}
    assert post({**two, "k0.tools.forbid": "x", "k0.tools.require": "x", "k1.tools.forbid": "y"}) == {
        "k0.name": "must begin with a letter, a digit or _, and have only these, dots and hyphens",
        "k0.tools.require": "`tools` contradicts itself: `x` is in `require` and in `forbid`",
        "k1.name": "is also the name of a check in evalgate.yaml:2: choose another one",
    }
    row = {"k0.name": "a", "k0.a0.tool": "pay", "k0.a0.path": "sum", "k0.a0.test": "approx"}
    assert "must be" in post({**row, "k0.a0.value": "much"})["k0.a0.value"]
    assert "not YAML" in post({**row, "k0.a0.value": "[1"})["k0.a0.value"]
    rest = post({**row, "k0.a0.value": "1", "k0.rest": "turn: last\ncals: some\nids: [a]"})["k0.rest"]
    assert "line 2: `cals` is not a known key. Did you mean `calls`?" in rest.replace("&#39;", "'")
    assert "line 3: `ids` belongs into a thresholds file" in rest
    assert "demands nothing" in post({"k0.name": "a"})["k0.name"]
    twice = post({**row, "k0.a0.value": "1", "k0.rest": "args: 3"})
    assert twice == {"k0.rest": "has `args`, which has a field above"}
    assert not (tmp_path / "evals/desk.cases.yaml").exists()


def test_a_call_of_a_run_is_required_and_another_forbidden(page: "Page", tmp_path: Path) -> None:
    path = _write_project(tmp_path)
    notes = path.with_name("desk.cases.yaml")
    with serve_viewer(tmp_path, ["results.json"]) as address:
        _open_case(page, address)
        page.goto(f"{address.partition('?')[0]}records/results/case?in=desk&id=late")
        page.get_by_role("link", name="Require this call of mail with a check").click()
        page.get_by_text("not saved").wait_for()
        assert page.get_by_label("Name", exact=True).input_value() == "calls_mail"
        page.get_by_role("button", name="Add a check that forbids refund").click()
        page.get_by_role("group", name="Check 2").wait_for()
        page.locator("#k1\\.response\\.contains").evaluate("each => each.closest('details').open = true")
        page.locator("#k1\\.response\\.contains").fill(_HOSTILE.strip())
        save_picture(page, "edit-checks")
        assert find_violations(page) == []
        page.set_viewport_size({"width": 360, "height": 740})
        assert not has_sideways_scroll(page)
        page.get_by_role("button", name="Preview the change").click()
        page.get_by_text("This would change").wait_for()
        assert not notes.exists()
        assert "+      no_refund:" in (page.locator(".file-diff").text_content() or "")
        notes.write_text("cases:\n  late: {checks: {other: {tools: {forbid: x}}}}\n")
        page.get_by_role("button", name="Save", exact=True).click()
        page.get_by_text("The checks of this case were changed in its notes").wait_for()
        notes.unlink()
        page.get_by_role("button", name="Save", exact=True).click()
        page.get_by_text("The checks of this case were changed in its notes").wait_for()
        page.get_by_role("button", name="Save", exact=True).click()
        page.get_by_text("Saved.").wait_for()
        assert page.title() != "ran"
        checks = read_case_notes(notes, "notes")[0].cases["late"].checks
        assert list(checks) == ["calls_mail", "no_refund"]
        assert checks["calls_mail"] == {"args": {"mail": {"order": 8, "to": "me"}}, "calls": "some"}
        assert any("document.title" in each for each in checks["no_refund"]["response"]["contains"])
        assert path.read_text() == ADK
        page.get_by_role("button", name="Undo").click()
        page.get_by_text("The last change was undone.").wait_for()
        assert not notes.exists()
