#!/usr/bin/env python3
"""Writes a Llama checkpoint with random BF16 weights, of a real model's shape.

    python3 scripts/large-model/make_checkpoint.py --shape llama-3-8b --out DIR

Nothing is downloaded. The same seed, device and version of torch write the same weights. Matrices are
normal with a deviation that keeps activations near one: 1 / sqrt(inputs), less for those that add to the
residual stream; the head's is three times that, so that logits have a deviation near 3 and the likeliest
token stands apart. Needs torch and safetensors; with a GPU it takes seconds, without one minutes.
"""

import argparse
import json
import math
from pathlib import Path

import torch
from safetensors.torch import save_file

SHAPES = {
    # hidden, inner, layers, heads, key/value heads, vocabulary, rope theta, positions
    "llama-3-8b": (4096, 14336, 32, 32, 8, 128256, 500000.0, 8192),
    "tinyllama-1b": (2048, 5632, 22, 32, 4, 32000, 10000.0, 2048),
    "tiny": (256, 704, 3, 8, 2, 1024, 10000.0, 2048),
}
SHARD_BYTES = 4 << 30


def config(shape):
    hidden, inner, layers, heads, kv_heads, vocab, theta, positions = shape
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": hidden // heads,
        "vocab_size": vocab,
        "max_position_embeddings": positions,
        "rms_norm_eps": 1e-5,
        "rope_theta": theta,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "attention_bias": False,
        "mlp_bias": False,
        "torch_dtype": "bfloat16",
        "bos_token_id": 1,
        "eos_token_id": 2,
    }


def tensors(shape):
    """Names, sizes and deviations in file order; a deviation of None means a norm's weight."""
    hidden, inner, layers, heads, kv_heads, vocab, _, _ = shape
    kv = hidden // heads * kv_heads
    residual = 1 / math.sqrt(2 * layers)
    yield "model.embed_tokens.weight", (vocab, hidden), 1.0
    for layer in range(layers):
        prefix = f"model.layers.{layer}."
        yield prefix + "input_layernorm.weight", (hidden,), None
        yield prefix + "self_attn.q_proj.weight", (hidden, hidden), hidden**-0.5
        yield prefix + "self_attn.k_proj.weight", (kv, hidden), hidden**-0.5
        yield prefix + "self_attn.v_proj.weight", (kv, hidden), hidden**-0.5
        yield prefix + "self_attn.o_proj.weight", (hidden, hidden), hidden**-0.5 * residual
        yield prefix + "post_attention_layernorm.weight", (hidden,), None
        yield prefix + "mlp.gate_proj.weight", (inner, hidden), hidden**-0.5
        yield prefix + "mlp.up_proj.weight", (inner, hidden), hidden**-0.5
        yield prefix + "mlp.down_proj.weight", (hidden, inner), inner**-0.5 * residual
    yield "model.norm.weight", (hidden,), None
    yield "lm_head.weight", (vocab, hidden), 3 * hidden**-0.5


def write(out, shape, seed, device):
    out.mkdir(parents=True, exist_ok=True)
    (out / "config.json").write_text(json.dumps(config(shape), indent=1))
    random = torch.Generator(device=device).manual_seed(seed)
    shard, held, files, places = {}, 0, [], {}

    def flush():
        nonlocal shard, held
        if shard:
            name = f"model-{len(files) + 1:05d}.safetensors"
            save_file(shard, out / name, metadata={"format": "pt"})
            places.update({tensor: name for tensor in shard})
            files.append(name)
            shard, held = {}, 0

    total = 0
    for name, size, deviation in tensors(shape):
        values = torch.randn(size, generator=random, device=device, dtype=torch.float32)
        values = 1 + 0.05 * values if deviation is None else values * deviation
        values = values.to(torch.bfloat16).cpu()
        shard[name] = values
        held += values.nbytes
        total += values.nbytes
        if held >= SHARD_BYTES:
            flush()
    flush()
    index = {"metadata": {"total_size": total}, "weight_map": places}
    (out / "model.safetensors.index.json").write_text(json.dumps(index))
    print(f"{out}: {total / 1e9:.2f} GB in {len(files)} files")


def main():
    parser = argparse.ArgumentParser(description="Write a random Llama checkpoint of a real shape.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--shape", choices=SHAPES, default="llama-3-8b")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()
    write(arguments.out, SHAPES[arguments.shape], arguments.seed, arguments.device)


if __name__ == "__main__":
    main()
