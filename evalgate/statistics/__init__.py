"""Decide from raw scores whether an agent got worse or only had bad luck; standard library only.

One of two functions decides from the comparison with the baseline:

- `auto_runs.plan_next_step` returns the runs to make next, or the decision. It is called with `runs: auto`,
  and also with a fixed number of runs if failing cases may be run again (the default).
- `metric_decisions.decide_without_follow_ups` decides if the number of runs is fixed, and failing cases may
  not be run again.

All functions are pure. The order of cases and metrics does not matter. The order of a case's runs matters in
two situations: only its first or newest runs are used, or a test is repeated after each run. `change_points`
is an exception: it searches a series of averages, in order of time.
"""
