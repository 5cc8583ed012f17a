"""Decide from raw scores whether an agent got worse or only had bad luck; standard library only.

`gate_decision.decide_fixed_runs` judges a fixed number of runs of every case. `auto_runs.plan_next_step`
names the runs to make next, or decides. All functions are pure. No decision depends on the order of cases
or metrics. The order of a case's runs matters only if its first or newest runs are chosen, or a test is
repeated after each run. Only `change_points` searches a series in order.
"""
