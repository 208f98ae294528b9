"""The cluster replay: real processes, real planes and real KV bytes, with faults where they are asked for."""
