"""Decide from raw scores whether an agent got worse or only had bad luck; standard library only.

`auto_runs.plan_next_step` returns the runs to make next, or the decision. It is called with `runs: auto`, and
also with a fixed number of runs if failing cases may be run again (the default). If they may not,
`metric_decisions.decide_without_follow_ups` decides instead. All functions are pure. No decision
depends on the order of cases or metrics. The order of a case's runs matters only if its first or newest runs
are chosen, or a test is repeated after each run. Only `change_points` searches a series in order.
"""
