"""Agents in containers: made, spoken to over their attached streams or a port, and always removed.

`process.ContainerProcess` stands where a worker's process stands on the machine itself, `published` asks a
server in a container, `ownership` finds what an earlier run had no time to remove.
"""
