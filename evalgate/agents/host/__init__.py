"""The agent host: the program that loads and runs a Python agent in the agent's own interpreter.

The modules need Python 3.9 or later. They import only the standard library, each other, and the framework
of the agent. The folder can therefore be copied to any machine or container, and is started as
`python <folder>/__main__.py OPTIONS`.
The host speaks the protocol of `docs/agent-protocol.md` on stdin and stdout.
"""
