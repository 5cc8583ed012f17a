"""A program that speaks the agent protocol by hand, without evalgate's worker."""

import json
import os
import sys
import threading
import time

from script import Crash, Hang, act, get_forecast

said = {}


def send(**message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def turn(session, text):
    said[session].append(text)
    try:
        found = act(said[session])
        if not isinstance(found, str):
            name, args = found
            send(type="tool_call", session=session, id="1", name=name, args=args)
            result = get_forecast(**args)
            send(type="tool_result", session=session, id="1", name=name, result=result)
            found = act(said[session], result)
        send(type="done", session=session, response=found, state={"said": said[session]})
    except Crash:
        os._exit(7)
    except Hang:
        time.sleep(600)


for line in sys.stdin:
    message = json.loads(line)
    session = message.get("session")
    if message["type"] == "hello":
        send(type="ready", protocol=1)
    elif message["type"] == "start":
        said[session] = []
    elif message["type"] == "turn":
        threading.Thread(target=turn, args=(session, message["text"]), daemon=True).start()
    elif message["type"] == "cancel":
        send(type="still_running", session=session)
