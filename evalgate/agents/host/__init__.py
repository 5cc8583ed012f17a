"""The agent host: the program that loads and runs a Python agent in the agent's own interpreter.

Standard library only, Python 3.9 and later, and nothing of evalgate: the folder can be copied into any
interpreter, virtual environment or container and started there as `python <folder>/__main__.py OPTIONS`.
It speaks the protocol of `docs/agent-protocol.md` on stdin and stdout.
"""
