"""Tiny random checkpoints with reference logits and greedy continuations.

One folder per variant:

    config.json           as transformers writes it (rope_parameters, dtype, ...)
    config-classic.json   the same model in the form used before transformers 5 (rope_theta,
                          rope_scaling, torch_dtype); checked to load to the same logits
    model*.safetensors    the weights (with an index when sharded)
    generation_config.json  as transformers writes it
    reference.json        what a right implementation computes

reference.json:

    about               how the numbers were made
    vocab_size          width of a row of logits
    inv_freq            the rotary frequencies, one per pair of dimensions (for "dynamic": those used
                        up to max_position_embeddings)
    attention_scaling   factor on the rotary cosines and sines
    sensitivity         largest change of a logit of the longest prompt when the named thing is done
                        wrong; each was checked to exceed MIN_SENSITIVITY
    cases               list of
        prompt_ids      the prompt
        logits          base64 of little-endian float32 [len(prompt_ids), vocab_size]
        greedy_ids      the 64 ids that follow, each the plain argmax; the end id does not stop
        greedy_min_gap  smallest distance between the best and second best logit of those 64 steps

All numbers come from the stored weights upcast to float32, eager attention, on the CPU.
"""

import base64
import concurrent.futures
import functools
import json
import multiprocessing
import random
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    DynamicCache,
    LlamaConfig,
    MistralConfig,
    Qwen2Config,
    Qwen3Config,
)

GREEDY_STEPS = 64
MIN_GAP = 2e-3
WANTED_GAP = 5e-3
WANTED_DISTINCT = 12
PROMPT_ATTEMPTS = 30
MIN_SENSITIVITY = 1e-2
LOGIT_STD = 2.2
LENGTHS = (1, 9, 40)
SLIDING_LENGTHS = (1, 9, 48)
FIRST_ORDINARY_ID = 3

# Sizes shared by most variants; a variant overrides what it is about.
SMALL = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 56,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


# --- Variants -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Variant:
    name: str
    config_class: type
    config: dict
    wrongs: dict[str, Callable]  # name of a mistake -> function that makes it in a config
    dtype: torch.dtype = torch.float32
    lengths: tuple[int, ...] = LENGTHS
    shard_bytes: int | None = None
    one_at_a_time: bool = False  # feed the prompt token by token instead of in one pass
    classic_type_key: str = "type"  # the key of the kind of scaling in the classic rope_scaling
    classic_extra: dict = field(default_factory=dict)
    classic_without: tuple[str, ...] = ()


def double_theta(config):
    config.rope_parameters = {**config.rope_parameters, "rope_theta": 2 * config.rope_parameters["rope_theta"]}


def drop_scaling(config):
    config.rope_parameters = {"rope_type": "default", "rope_theta": config.rope_parameters["rope_theta"]}


def drop_attention_factor(config):
    config.rope_parameters = {**config.rope_parameters, "attention_factor": 1.0}


def drop_window(config):
    config.sliding_window = None
    if getattr(config, "layer_types", None):
        config.layer_types = ["full_attention"] * config.num_hidden_layers


def widen_window(config):
    config.sliding_window += 1


def slide_everywhere(config):
    config.layer_types = ["sliding_attention"] * config.num_hidden_layers


THETA = {"theta_doubled": double_theta}
SCALING = {**THETA, "scaling_dropped": drop_scaling}
WINDOW = {**THETA, "window_dropped": drop_window, "window_one_wider": widen_window}


def rope(rope_type="default", theta=10000.0, **parameters):
    return {"rope_parameters": {"rope_type": rope_type, "rope_theta": theta, **parameters}}


def llama(name, wrongs=THETA, config=None, **options):
    return Variant(name, LlamaConfig, {**SMALL, **rope(), **(config or {})}, wrongs, **options)


def rope_llama(name, parameters, wrongs=SCALING, config=None, **options):
    """A llama with wider heads, so that a kind of scaling treats several frequencies differently."""
    return llama(name, wrongs, {**parameters, "head_dim": 16, **(config or {})}, **options)


VARIANTS = [
    llama(
        "llama2",
        config={"num_key_value_heads": 4},
        # The first published files did not have these keys.
        classic_without=("num_key_value_heads", "attention_bias", "mlp_bias"),
    ),
    llama(
        "llama3-gqa-tied",
        config={
            **rope(theta=500000.0),
            "hidden_size": 48,
            "head_dim": 16,
            "tie_word_embeddings": True,
            "attention_bias": False,
            "mlp_bias": False,
        },
    ),
    rope_llama(
        "llama-rope-llama3",
        rope(
            "llama3",
            theta=500.0,
            factor=4.0,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
            original_max_position_embeddings=32,
        ),
        classic_type_key="rope_type",
    ),
    rope_llama("llama-rope-linear", rope("linear", factor=4.0)),
    rope_llama(
        "llama-rope-dynamic",
        rope("dynamic", theta=500.0, factor=4.0),
        config={"max_position_embeddings": 32},
        one_at_a_time=True,
    ),
    rope_llama(
        "llama-rope-yarn",
        rope("yarn", theta=500.0, factor=4.0, original_max_position_embeddings=32),
        wrongs={**SCALING, "attention_factor_dropped": drop_attention_factor},
    ),
    rope_llama(
        "llama-rope-yarn-explicit",
        rope(
            "yarn",
            theta=500.0,
            factor=4.0,
            original_max_position_embeddings=32,
            attention_factor=1.25,
            beta_fast=8.0,
            beta_slow=0.5,
        ),
        wrongs={**SCALING, "attention_factor_dropped": drop_attention_factor},
        classic_type_key="rope_type",
    ),
    llama("llama-bias", config={"attention_bias": True, "mlp_bias": True}),
    Variant(
        "mistral-sliding",
        MistralConfig,
        {**SMALL, **rope(), "sliding_window": 8},
        WINDOW,
        lengths=SLIDING_LENGTHS,
    ),
    Variant("mistral-full", MistralConfig, {**SMALL, **rope(theta=1000000.0), "sliding_window": None}, THETA),
    Variant(
        "qwen2",
        Qwen2Config,
        {**SMALL, **rope(theta=1000000.0), "use_sliding_window": False, "max_window_layers": 2},
        THETA,
        # Published files carry a window that use_sliding_window switches off.
        classic_extra={"sliding_window": 8},
    ),
    Variant(
        "qwen2-sliding",
        Qwen2Config,
        {
            **SMALL,
            **rope(),
            "num_hidden_layers": 3,
            "use_sliding_window": True,
            "sliding_window": 8,
            "max_window_layers": 1,
        },
        {**WINDOW, "window_in_every_layer": slide_everywhere},
        lengths=SLIDING_LENGTHS,
    ),
    Variant(
        "qwen3",
        Qwen3Config,
        {
            **SMALL,
            **rope(theta=1000000.0),
            "head_dim": 16,
            "tie_word_embeddings": True,
            "rms_norm_eps": 1e-6,
            "max_window_layers": 2,
        },
        THETA,
    ),
    llama("llama-bf16", dtype=torch.bfloat16),
    llama("llama-f16", dtype=torch.float16),
    llama("llama-sharded", shard_bytes=40_000),
]


# --- Weights ------------------------------------------------------------------------------------

# Standard deviation of a linear layer's output for an input of unit variance. Queries and keys are
# large enough for attention to be far from uniform, outputs for each block to matter in the residual.
GAINS = {
    "q_proj": 1.5,
    "k_proj": 1.5,
    "v_proj": 1.0,
    "o_proj": 1.6,
    "gate_proj": 1.2,
    "up_proj": 1.2,
    "down_proj": 1.6,
    "lm_head": LOGIT_STD,
}


def random_weight(name, parameter, tied, generator):
    """Values for one parameter: norms around 1, non-zero biases, weights scaled by their fan-in."""
    shape = parameter.shape
    if name.endswith("norm.weight"):
        return 0.5 + torch.rand(shape, generator=generator)
    noise = torch.randn(shape, generator=generator)
    if name.endswith(".bias"):
        return 0.3 * noise
    if "embed_tokens" in name:
        return noise * (LOGIT_STD / shape[1] ** 0.5) if tied else noise
    layer = name.split(".")[-2]
    return noise * (GAINS[layer] / shape[1] ** 0.5)


def save_checkpoint(variant, seed, folder):
    config = variant.config_class(**variant.config)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            parameter.copy_(random_weight(name, parameter, config.tie_word_embeddings, generator))
    shards = {} if variant.shard_bytes is None else {"max_shard_size": variant.shard_bytes}
    model.to(variant.dtype).save_pretrained(folder, **shards)
    if variant.shard_bytes is not None and len(list(folder.glob("*.safetensors"))) < 2:
        raise AssertionError(f"{variant.name}: expected several shards")


def load(folder, config=None):
    options = {} if config is None else {"config": config}
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager", **options)
    return model.eval()


# --- Forward passes -----------------------------------------------------------------------------


def feed(model, ids, cache):
    """Logits of each of the ids, which follow what the cache holds."""
    return model(input_ids=torch.tensor([ids]), past_key_values=cache, use_cache=True).logits[0]


@torch.no_grad()
def single_pass(model, ids):
    return model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]


@torch.no_grad()
def token_by_token(model, ids, cache=None):
    cache = DynamicCache(config=model.config) if cache is None else cache
    return torch.cat([feed(model, [token], cache) for token in ids])


def prompt_logits(variant, model, ids):
    return token_by_token(model, ids) if variant.one_at_a_time else single_pass(model, ids)


@torch.no_grad()
def greedy(variant, model, prompt):
    """The ids chosen by plain argmax with a cache, and the smallest lead of a chosen id."""
    cache = DynamicCache(config=model.config)
    logits = token_by_token(model, prompt, cache) if variant.one_at_a_time else feed(model, prompt, cache)
    chosen, smallest_gap = [], float("inf")
    for _ in range(GREEDY_STEPS):
        best, second = torch.topk(logits[-1], 2).values.tolist()
        smallest_gap = min(smallest_gap, best - second)
        chosen.append(int(torch.argmax(logits[-1])))
        logits = feed(model, [chosen[-1]], cache)
    return chosen, smallest_gap


def difference(left, right):
    return float((left - right).abs().max())


# --- Reference ----------------------------------------------------------------------------------


def random_prompt(rng, length, vocab_size):
    ids = [rng.randrange(FIRST_ORDINARY_ID, vocab_size) for _ in range(length)]
    if length > 1:
        ids[0] = SMALL["bos_token_id"]
    return ids


def choose_case(variant, model, length, rng):
    """A prompt whose continuation is unambiguous in float32 and not a short loop."""
    fallback = None
    for _ in range(PROMPT_ATTEMPTS):
        prompt = random_prompt(rng, length, model.config.vocab_size)
        chosen, gap = greedy(variant, model, prompt)
        distinct = len(set(chosen))
        if gap > WANTED_GAP and distinct >= WANTED_DISTINCT:
            return prompt, chosen, gap
        if gap > MIN_GAP and (fallback is None or distinct > fallback[0]):
            fallback = (distinct, (prompt, chosen, gap))
    if fallback is None:
        raise AssertionError(f"{variant.name}: no prompt of {length} has a clear greedy continuation")
    return fallback[1]


def encode(logits):
    return base64.b64encode(logits.contiguous().numpy().astype("<f4").tobytes()).decode("ascii")


def make_cases(variant, model, seed):
    cases = []
    for length in variant.lengths:
        prompt, chosen, gap = choose_case(variant, model, length, random.Random(1000 * seed + length))
        logits = prompt_logits(variant, model, prompt)
        check_cache_agrees(variant, model, prompt, logits)
        cases.append(
            {
                "prompt_ids": prompt,
                "logits": encode(logits),
                "greedy_ids": chosen,
                "greedy_min_gap": gap,
            }
        )
        print(
            f"{variant.name}: prompt of {length}, logits std {float(logits.std()):.2f}, "
            f"gap {gap:.4f}, {len(set(chosen))} distinct ids",
            flush=True,
        )
    return cases


def check_cache_agrees(variant, model, prompt, logits):
    """One pass and token by token agree, except past the original length of a dynamic rotation."""
    if variant.one_at_a_time and len(prompt) > model.config.max_position_embeddings:
        return
    other = single_pass(model, prompt) if variant.one_at_a_time else token_by_token(model, prompt)
    if difference(logits, other) > 1e-4:
        raise AssertionError(f"{variant.name}: one pass and token by token differ for {len(prompt)} tokens")


def measure_sensitivity(variant, folder, model, prompt):
    """How far the logits move when the model is run with each of the variant's mistakes."""
    right = prompt_logits(variant, model, prompt)
    moved = {}
    for name, make_mistake in variant.wrongs.items():
        config = AutoConfig.from_pretrained(folder)
        make_mistake(config)
        moved[name] = difference(right, prompt_logits(variant, load(folder, config), prompt))
    if variant.one_at_a_time:
        moved["prompt_in_one_pass"] = difference(right, single_pass(load(folder), prompt))
    for name, change in moved.items():
        if change < MIN_SENSITIVITY:
            raise AssertionError(f"{variant.name}: {name} moves the logits by only {change}")
    return moved


def about(variant, model):
    text = (
        "Hugging Face transformers, float32 on the CPU with eager attention, over the stored weights. "
        "logits: base64 of little-endian float32 [len(prompt_ids), vocab_size]"
    )
    if not variant.one_at_a_time:
        return f"{text}, from one pass over the prompt. greedy_ids: argmax with a cache, one token at a time."
    limit = model.config.max_position_embeddings
    return (
        f"{text}. The prompt is fed ONE TOKEN AT A TIME with a cache, so position p is rotated with the "
        f"frequencies of sequence length max(p + 1, {limit}); keys keep the rotation of the step that "
        f"cached them. Prompts of up to {limit} tokens give the same in one pass. greedy_ids continue likewise."
    )


def make_reference(variant, seed, folder):
    model = load(folder)
    rotary = model.model.rotary_emb
    cases = make_cases(variant, model, seed)
    return {
        "about": about(variant, model),
        "vocab_size": model.config.vocab_size,
        "inv_freq": rotary.original_inv_freq.tolist(),
        "attention_scaling": float(rotary.attention_scaling),
        "sensitivity": measure_sensitivity(variant, folder, model, cases[-1]["prompt_ids"]),
        "cases": cases,
    }


# --- The classic form of config.json ------------------------------------------------------------


def classic_config(variant, saved):
    """The config in the form published checkpoints had before transformers 5."""
    dropped = {"rope_parameters", "dtype", "layer_types", "transformers_version", *variant.classic_without}
    classic = {key: value for key, value in saved.items() if key not in dropped}
    scaling = dict(saved["rope_parameters"])
    classic["rope_theta"] = scaling.pop("rope_theta")
    kind = scaling.pop("rope_type")
    classic["rope_scaling"] = None if kind == "default" else {variant.classic_type_key: kind, **scaling}
    classic["torch_dtype"] = saved["dtype"]
    classic["transformers_version"] = "4.46.0"
    if classic.get("head_dim") == classic["hidden_size"] // classic["num_attention_heads"]:
        del classic["head_dim"]
    return {**classic, **variant.classic_extra}


def check_classic_loads(variant, folder, prompt):
    """The classic config over the same weights gives the same logits."""
    with tempfile.TemporaryDirectory() as temporary:
        for file in folder.glob("model*.safetensors*"):
            shutil.copy(file, temporary)
        shutil.copy(folder / "config-classic.json", Path(temporary) / "config.json")
        classic = prompt_logits(variant, load(temporary), prompt)
    if difference(classic, prompt_logits(variant, load(folder), prompt)) > 1e-6:
        raise AssertionError(f"{variant.name}: config-classic.json gives other logits")


# --- All of it ----------------------------------------------------------------------------------


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def make_variant(index, out):
    torch.set_num_threads(1)
    variant = VARIANTS[index]
    seed = 100 + index
    folder = out / variant.name
    save_checkpoint(variant, seed, folder)
    reference = make_reference(variant, seed, folder)
    saved = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    write_json(folder / "config-classic.json", classic_config(variant, saved))
    check_classic_loads(variant, folder, reference["cases"][-1]["prompt_ids"])
    write_json(folder / "reference.json", reference)
    moved = ", ".join(f"{name} {change:.3f}" for name, change in reference["sensitivity"].items())
    print(f"{variant.name}: done; sensitivity: {moved}", flush=True)


def make(out, jobs=1):
    work = functools.partial(make_variant, out=out)
    if jobs == 1:
        for index in range(len(VARIANTS)):
            work(index)
        return
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(jobs, mp_context=context) as pool:
        list(pool.map(work, range(len(VARIANTS))))
