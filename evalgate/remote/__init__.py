"""Agents that answer over HTTP: one pool of connections, and the wire formats that are spoken over it.

`agent.RemoteAgent` is an `Agent`; what differs between formats is a `conversation.Dialect`. Everything that
arrives is untrusted: `connection` bounds it, and no format lets through what the data model does not promise.
"""
