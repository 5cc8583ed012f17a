"""The gate's side of the worker protocol: processes that host the agent, and conversations with them.

`pool.WorkerPool` is what agents of a kind that speaks the protocol are made of. Everything that arrives from
a worker is untrusted: `wire` and `messages` let nothing through that the data model does not promise.
"""
