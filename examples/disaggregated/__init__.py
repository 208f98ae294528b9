"""Prefill and decode on two groups of ranks, with the KV handed over through storage; the engine itself is `minillm`.

Read `transfers`, `side`, `prefill`, `decode` and `deployment`, in this order. `python -m examples.disaggregated` runs
it.
"""
