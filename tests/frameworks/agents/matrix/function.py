"""A Python function. Its crash takes the process along, its hang blocks the thread."""

import os
import time

from script import Crash, Hang, act, get_forecast


def answer(text, session):
    said = session.state["said"] = [*session.state.get("said", []), text]
    try:
        found = act(said)
        if isinstance(found, str):
            return found
        name, args = found
        session.tool_call(name, args, id="1")
        result = get_forecast(**args)
        session.tool_result(name, result, id="1")
        return act(said, result)
    except Crash:
        os._exit(7)
    except Hang:
        time.sleep(600)
