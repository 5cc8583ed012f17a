"""The agent on the nodes of a Ray cluster, while scores, journal and limits stay with the gate.

`agent.ClusterAgent` is an `Agent` whose conversations are held by others: in each Ray actor (`host.Host`) the
agent is built as the gate itself would build it. Between the two stands a process that alone knows Ray
(`bridge`): Ray ends a process that loses its cluster, starts threads, takes signal handlers and writes to
standard error, and a local cluster inherits the environment of whoever starts it. None of that happens to the
gate.
"""
