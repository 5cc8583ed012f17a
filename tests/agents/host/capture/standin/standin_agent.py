"""An agent that asks a model through the replacement of httpx in this folder."""

import json

import httpx


def agent(text):
    client = httpx.Client()
    messages = [{"role": "user", "content": text}]
    while True:
        answer = json.loads(client.send(httpx.Request({"model": "m", "messages": messages})).content)
        message = answer["choices"][0]["message"]
        if "tool_calls" not in message:
            return message["content"]
        messages += [message, {"role": "tool", "tool_call_id": "1", "content": json.dumps({"seen": True})}]
