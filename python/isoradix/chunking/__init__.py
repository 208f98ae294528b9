"""Chunks of a prefill that all take about as long, in a pipeline: dynamic chunking.

The leader measures how long prompts of many lengths take (`profile`), fits a model to that (`ChunkModel.fit`) and tells
its coefficients to all ranks in a frame; from then on `ChunkSizer` gives the same chunk on every rank, since it is a
function of agreed numbers. No rank fits samples of its own.
"""

from isoradix.chunking.model import ChunkModel
from isoradix.chunking.profile import global_token_counts, profile, profile_lengths
from isoradix.chunking.sizer import CHUNK_KEY, ChunkSizer

__all__ = ["CHUNK_KEY", "ChunkModel", "ChunkSizer", "global_token_counts", "profile", "profile_lengths"]
