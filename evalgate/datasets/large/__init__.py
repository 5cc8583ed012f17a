"""Eval sets and results that are too large for memory: they stay in their file and are decoded on access.

No other package needs to know whether a file is large. An eval set's `cases` is always a sequence, and a
run's `turns` is always a tuple; this package only delays reading them. The whole interface:

- `large_json.read_large_json` reads a large file, except its long lists. `datasets.loading` calls it.
- `stored_cases.StoredCases` is the sequence of the cases in such a file. `cases.build_cases` creates it.
- `lazy_runs.read_shard_case` reads a case of a shard without its conversations, for `runner.shard_files`.
- `lazy_runs.JournalRun` is a run that decodes its turns later, for the rows of `runner.checkpoint`.

These modules are imported only when a file is large, or when results of earlier runs are read.
"""
