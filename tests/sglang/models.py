"""A tiny random Llama: small enough for a CPU, and with greedy choices that rounding does not turn.

    python -m tests.sglang.models --layers 4

There is no tokenizer; engines are given token ids.
"""

import argparse
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

VOCABULARY: Final = 512
WIDTH: Final = 64
HIDDEN: Final = 128
HEADS: Final = 4
KV_HEADS: Final = 2  # so at most two tensor-parallel ranks have one each
FOLDER: Final = Path(__file__).parents[2] / "out" / "sglang-models"

# Wide enough that logits of different tokens lie far apart, compared with what another batch shape or another
# number of ranks rounds differently.
SPREAD: Final = 0.2

Weights = npt.NDArray[np.float32]


def model(layers: int = 2, folder: Path = FOLDER) -> Path:
    """The folder of a model with so many layers, written unless it is there. Its weights are the same everywhere."""
    path = folder / f"llama-{layers}"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f"llama-{layers}-", dir=folder))
        _write(fresh, layers)
        try:
            fresh.rename(path)
        except OSError:  # another process was first
            shutil.rmtree(fresh)
    return path


def _write(path: Path, layers: int) -> None:
    from safetensors.numpy import save_file

    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "float32",
        "vocab_size": VOCABULARY,
        "hidden_size": WIDTH,
        "intermediate_size": HIDDEN,
        "num_hidden_layers": layers,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": WIDTH // HEADS,
        "max_position_embeddings": 4096,
        "rope_theta": 10000.0,
        "rms_norm_eps": 1e-6,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    (path / "config.json").write_text(json.dumps(config, indent=1))
    save_file(dict(_weights(layers)), path / "model.safetensors", metadata={"format": "pt"})
    os.chmod(path, 0o755)  # noqa: PTH101 mkdtemp's folders are private


def _weights(layers: int) -> Iterator[tuple[str, Weights]]:
    generator = np.random.default_rng(0)

    def drawn(*shape: int) -> Weights:
        return generator.standard_normal(shape, dtype=np.float32) * np.float32(SPREAD)

    keys = WIDTH // HEADS * KV_HEADS
    yield "model.embed_tokens.weight", drawn(VOCABULARY, WIDTH)
    for layer in range(layers):
        at = f"model.layers.{layer}"
        for name, shape in (("q", (WIDTH, WIDTH)), ("k", (keys, WIDTH)), ("v", (keys, WIDTH)), ("o", (WIDTH, WIDTH))):
            yield f"{at}.self_attn.{name}_proj.weight", drawn(*shape)
        for name, shape in (("gate", (HIDDEN, WIDTH)), ("up", (HIDDEN, WIDTH)), ("down", (WIDTH, HIDDEN))):
            yield f"{at}.mlp.{name}_proj.weight", drawn(*shape)
        for name in ("input_layernorm", "post_attention_layernorm"):
            yield f"{at}.{name}.weight", np.ones(WIDTH, dtype=np.float32)
    yield "model.norm.weight", np.ones(WIDTH, dtype=np.float32)
    yield "lm_head.weight", drawn(VOCABULARY, WIDTH)


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes the tiny model and prints where it lies.")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    arguments = parser.parse_args()
    print(model(arguments.layers, arguments.folder))


if __name__ == "__main__":
    main()
