"""Decide from raw scores whether an agent got worse or only had bad luck; standard library only.

`gate_decision.decide_fixed_runs` judges a fixed number of runs of every case. `adaptive_runs.plan_next_step`
names the runs to make next, or decides. All functions are pure. Every result depends on the multisets of
scores alone, never on the order of cases, metrics or runs; only AUTO needs to know the order of a case's
runs.
"""
