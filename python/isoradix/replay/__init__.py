"""Replay of request traces and built-in workloads through a bounded prefix cache.

Modules, in the order in which they build on each other: `blocks` (token contents), `trace` (the Mooncake reader),
`draws` and `workloads` (generators), `source` (what a replay iterates), `runner` (the replay), `stats`, `units`,
`optimal` and `sweep` (hit rate against capacity).
"""
