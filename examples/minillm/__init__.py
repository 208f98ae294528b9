"""A small LLM engine around isoradix: tensor and pipeline parallel, paged KV, continuous batching, three cache tiers.

Read it in this order: `settings`, `model`, `scheduler`, `rank`. Run it with `isoradix demo`, or from this folder's
parent with `python -m minillm --help`.
"""
