"""Books rooms. Asks for what it is not told."""

import re

DAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
NUMBERS = {"one": 1, "two": 2, "three": 3, "four": 4}


def answer(text, session):
    """One turn; what it knows already is in the session's state."""
    for word in re.findall(r"[a-z]+", text.lower()):
        if word in NUMBERS:
            session.state["people"] = NUMBERS[word]
        if word in DAYS:
            session.state["night"] = word
    if "people" not in session.state:
        return "For how many people?"
    if "night" not in session.state:
        return "For which night?"
    session.tool_call("book", {"people": session.state["people"], "night": session.state["night"]})
    return f"Booked for {session.state['people']} on {session.state['night']}."
