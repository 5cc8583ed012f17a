"""Decide from raw scores whether an agent got worse or only had bad luck; standard library only.

`metric_decisions.decide_fixed_runs` decides from a fixed number of runs of every case. With `runs: auto`,
`auto_runs.plan_next_step` returns the runs to make next, or the decision. All functions are pure. No decision
depends on the order of cases or metrics. The order of a case's runs matters in two situations: the first or
the newest runs are chosen, or a test is repeated after each run. `change_points` searches an ordered series.
"""
