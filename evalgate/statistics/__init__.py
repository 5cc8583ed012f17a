"""Did it get worse, or was it luck? Pure functions from raw scores to verdicts; standard library only.

`fixed.decide` judges runs that are all there, `auto.next_step` says which runs to make next or what they
show, `sentences` says it in words. Every result depends on the multisets of scores alone, never on the order
of cases, metrics or runs; only AUTO knows which run of a case came first.
"""
