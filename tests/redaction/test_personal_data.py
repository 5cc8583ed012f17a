"""Personal data becomes placeholders; ordinary numbers of an eval set stay."""

import pytest

from evalgate.core.types import CaseTurn, EvalCase, SessionInput, UserMessage
from evalgate.redaction.personal_data import PersonalDataRedactor
from tests.builders import a_call, a_reply

CARD = "4111111111111111"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("write to anna.b+x@firm.co.uk!", "write to user1@example.com!"),
        ("joe@ourexample.com", "user1@example.com"),
        (
            "a@b.de and c@d.org, again a@b.de",
            "user1@example.com and user2@example.com, again user1@example.com",
        ),
        ("card 4111 1111 1111 1111, 5500-0000-0000-0004", "card 0000 0000 0000 0001, 0000 0000 0000 0002"),
        ("call +49 30 901820 or (030) 901820", "call +1 555 0101 or +1 555 0102"),
        ("call 555-123-4567 now", "call +1 555 0101 now"),
        ("A@b.de, a@B.de", "user1@example.com, user1@example.com"),
        (f"{CARD}, 4111 1111 1111 1111", "0000 0000 0000 0001, 0000 0000 0000 0001"),
        ("+49 30 901820, +4930901820, 030", "+1 555 0101, +1 555 0101, 030"),
    ],
)
def test_personal_data_is_replaced(text: str, clean: str) -> None:
    redactor = PersonalDataRedactor()
    assert redactor.redact_text(text) == clean
    assert redactor.redact_text(clean) == clean


@pytest.mark.parametrize(
    "text",
    [
        "order 4111111111111112",  # no check digit
        "order 10042, 2026-11-23 12:30:00, 3.14159265358979",
        "id 4bf92f3577b34da6a3ce929d0e0e4736",
        "version 1.2.3, 192.168.10.20, a@b, @handle, user@localhost",
        "tracking 1234-5678-9012",
        "user7@example.com",
        "joe@mail.example.org",
    ],
)
def test_other_texts_stay(text: str) -> None:
    redactor = PersonalDataRedactor()
    assert redactor.redact_text(text) == text
    assert not redactor.counts


def test_trees_are_replaced_with_equal_placeholders() -> None:
    redactor = PersonalDataRedactor()
    tree = {"to": "anna@firm.de", "all": ["ben@firm.de", {"cc": "anna@firm.de"}], "n": 3, "is": True}
    assert redactor.redact_tree(tree) == {
        "to": "user1@example.com",
        "all": ["user2@example.com", {"cc": "user1@example.com"}],
        "n": 3,
        "is": True,
    }
    assert redactor.counts == {"e-mail address": 2}


def test_card_numbers_that_are_numbers_stay_numbers() -> None:
    redactor = PersonalDataRedactor()
    case = EvalCase(
        "a",
        (CaseTurn(UserMessage("pay"), a_reply("", a_call("pay", card=4111111111111111, orders=[10042]))),),
        session=SessionInput(state={"cards": [4111111111111111, 378282246310005], "at": 1763890000006}),
    )
    redacted = redactor.redact_tree(case)
    (call,) = redacted.turns[0].expected.tool_calls
    assert call.args == {"card": 9000000000000001, "orders": [10042]}
    assert redacted.session.state == {"cards": [9000000000000001, 9000000000000002], "at": 1763890000006}
    assert redactor.counts == {"card number": 2}
    assert redactor.redact_tree(redacted) is redacted


def test_a_card_number_may_be_a_text_and_a_number() -> None:
    for data in ({"a": CARD, "b": int(CARD)}, {"b": int(CARD), "a": CARD}):
        redactor = PersonalDataRedactor()
        assert redactor.redact_tree(data) == {"a": "0000 0000 0000 0001", "b": 9_000_000_000_000_001}
        assert redactor.redact_tree([int(CARD), CARD]) == [9_000_000_000_000_001, "0000 0000 0000 0001"]
        assert redactor.counts == {"card number": 1}
