"""Fault-injection tests. `docs/reliability.md` lists all faults, also those with tests in other folders."""
