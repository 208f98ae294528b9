"""A small LLM engine around isoradix: tensor and pipeline parallel, paged KV, continuous batching, three cache tiers.

Read `settings`, `model`, `scheduler`, `stage` and `rank`, in this order. `isoradix demo` runs it.
"""
