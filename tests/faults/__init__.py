"""Faults of every kind, injected. `docs/reliability.md` lists them all, with the tests of other folders."""
