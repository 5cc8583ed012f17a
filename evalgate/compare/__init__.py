"""The step "compare": this run beside its baseline, case by case and metric by metric.

`changes` says which cases are others than they were. `sampling`, `tables` and `judging` ask the statistics;
they are imported where they are needed, for a run without a baseline needs none of it.
"""
