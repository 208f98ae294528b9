"""Benchmarks of isoradix, alone and beside its peers."""
