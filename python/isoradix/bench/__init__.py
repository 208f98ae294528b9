"""Microbenchmarks through the Python API: `match`, `insert`, `lock`, `evict`, `replay` and `memory`.

Each module lists its cases for a `Grid` and measures one case at a time; `catalogue.BENCHES` holds them all.
"""
