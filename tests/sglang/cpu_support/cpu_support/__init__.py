"""An SGLang plug-in for its tests: L2 on a CPU, and what ISORADIX_TEST_* asks for.

SGLang calls `register` once in every process that it starts. It must be quick to import.
"""

import os


def register() -> None:
    """Fills in what a CPU lacks, and plants what the environment asks for."""
    import torch

    if not torch.cuda.is_available():
        from .host_memory import serve_l2_on_cpu

        serve_l2_on_cpu()
    if os.environ.get("ISORADIX_TEST_FAULTS"):
        from .faults import plant_faults

        plant_faults(os.environ["ISORADIX_TEST_FAULTS"])
    if os.environ.get("ISORADIX_TEST_CORRUPT"):
        from .corruption import plant_corruption

        plant_corruption(os.environ["ISORADIX_TEST_CORRUPT"])
    if os.environ.get("ISORADIX_TEST_CHUNKS"):
        from .chunk_times import plant_times

        plant_times(os.environ["ISORADIX_TEST_CHUNKS"])
