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
                        up to max_position_embeddings); by kind of layer where they differ
    attention_scaling   factor on the rotary cosines and sines; likewise
    sensitivity         largest change of a logit of the longest prompt when the named thing is done
                        wrong; each was checked to exceed MIN_SENSITIVITY
    cases               list of
        prompt_ids      the prompt
        logits          base64 of little-endian float32 [len(prompt_ids), vocab_size]
        greedy_ids      the 64 ids that follow (fewer where max_position_embeddings leaves room for
                        fewer), each the plain argmax; the end id does not stop
        greedy_min_gap  smallest distance between the best and second best logit of those steps

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
    Cohere2Config,
    DynamicCache,
    Gemma2Config,
    Gemma3TextConfig,
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
# Long enough for a context to be projected in several pieces, the last of them short.
LONG = 91
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


def never_slide(config):
    config.layer_types = ["full_attention"] * config.num_hidden_layers


def shift_windows(config):
    config.layer_types = config.layer_types[1:] + config.layer_types[:1]


def open_window(config):
    """Layers keep their kind, with a window longer than any prompt."""
    config.sliding_window = 4096


def setting(key, value):
    """The mistake of running with another value."""
    return lambda config: setattr(config, key, value)


def changing_rope(layer_type, **parameters):
    """The mistake of another rotation in the layers of a kind."""

    def change(config):
        rotations = config.rope_parameters
        config.rope_parameters = {**rotations, layer_type: {**rotations[layer_type], **parameters}}

    return change


THETA = {"theta_doubled": double_theta}
SCALING = {**THETA, "scaling_dropped": drop_scaling}
WINDOW = {**THETA, "window_dropped": drop_window, "window_one_wider": widen_window}
MIXED_WINDOWS = {
    "window_dropped": open_window,
    "window_one_wider": widen_window,
    "window_in_every_layer": slide_everywhere,
    "window_in_no_layer": never_slide,
    "windows_in_other_layers": shift_windows,
}


def rope(rope_type="default", theta=10000.0, **parameters):
    return {"rope_parameters": {"rope_type": rope_type, "rope_theta": theta, **parameters}}


def llama(name, wrongs=THETA, config=None, **options):
    return Variant(name, LlamaConfig, {**SMALL, **rope(), **(config or {})}, wrongs, **options)


def rope_llama(name, parameters, wrongs=SCALING, config=None, **options):
    """A llama with wider heads, so that a kind of scaling treats several frequencies differently."""
    return llama(name, wrongs, {**parameters, "head_dim": 16, **(config or {})}, **options)


def rope_by_layer(full, sliding):
    """Rotations that differ between the kinds of layer, each with its theta and maybe a linear factor."""

    def entry(theta, factor=None):
        scaling = {"rope_type": "default"} if factor is None else {"rope_type": "linear", "factor": factor}
        return {**scaling, "rope_theta": theta}

    return {"rope_parameters": {"full_attention": entry(*full), "sliding_attention": entry(*sliding)}}


# Gemma: hidden sizes whose root is no integer, heads wider than hidden_size / heads.
GEMMA = {
    **SMALL,
    "hidden_size": 40,
    "head_dim": 16,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 192,
    "sliding_window": 8,
    "bos_token_id": 2,
    "eos_token_id": 1,
    "tie_word_embeddings": True,
}

COHERE = {
    **{key: value for key, value in SMALL.items() if key != "rms_norm_eps"},
    "hidden_size": 48,
    "layer_norm_eps": 1e-5,
    "max_position_embeddings": 192,
    "sliding_window": 8,
}

LONG_LENGTHS = (1, 9, LONG)


VARIANTS = [
    llama(
        "llama2",
        config={"num_key_value_heads": 4},
        # The first published files did not have these keys.
        classic_without=("num_key_value_heads", "attention_bias", "mlp_bias"),
        lengths=(*LENGTHS, LONG),
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
        lengths=(*LENGTHS, LONG),
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
        lengths=(*SLIDING_LENGTHS, LONG),
    ),
    Variant("mistral-full", MistralConfig, {**SMALL, **rope(theta=1000000.0), "sliding_window": None}, THETA),
    Variant(
        "qwen2",
        Qwen2Config,
        {**SMALL, **rope(theta=1000000.0), "use_sliding_window": False, "max_window_layers": 2},
        THETA,
        # Published files carry a window that use_sliding_window switches off.
        classic_extra={"sliding_window": 8},
        lengths=(*LENGTHS, LONG),
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
        lengths=(*SLIDING_LENGTHS, LONG),
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
        lengths=(*LENGTHS, LONG),
    ),
    llama("llama-bf16", dtype=torch.bfloat16),
    llama("llama-f16", dtype=torch.float16),
    llama("llama-sharded", shard_bytes=40_000),
    Variant(
        "gemma2",
        Gemma2Config,
        {
            **GEMMA,
            **rope(theta=500.0),
            "num_hidden_layers": 3,
            "query_pre_attn_scalar": 24,
            "attn_logit_softcapping": 2.0,
            "final_logit_softcapping": 4.0,
        },
        {
            **THETA,
            **MIXED_WINDOWS,
            "attention_cap_dropped": setting("attn_logit_softcapping", None),
            "logit_cap_dropped": setting("final_logit_softcapping", None),
            "query_scalar_from_head_dim": setting("query_pre_attn_scalar", 16),
            "other_activation": setting("hidden_activation", "silu"),
        },
        lengths=LONG_LENGTHS,
    ),
    # Caps switched off by null, a head of its own, biases, half-precision weights.
    Variant(
        "gemma2-bf16",
        Gemma2Config,
        {
            **GEMMA,
            **rope(),
            "query_pre_attn_scalar": 16,
            "attn_logit_softcapping": None,
            "final_logit_softcapping": None,
            "attention_bias": True,
            "tie_word_embeddings": False,
        },
        {**THETA, **MIXED_WINDOWS, "logit_cap_of_absent_key": setting("final_logit_softcapping", 30.0)},
        dtype=torch.bfloat16,
        lengths=SLIDING_LENGTHS,
    ),
    Variant(
        "gemma3",
        Gemma3TextConfig,
        {
            **GEMMA,
            **rope_by_layer((5000.0,), (100.0,)),
            "num_hidden_layers": 4,
            "query_pre_attn_scalar": 20,
            "sliding_window_pattern": 3,
        },
        {
            **MIXED_WINDOWS,
            "local_theta_doubled": changing_rope("sliding_attention", rope_theta=200.0),
            "local_theta_as_global": changing_rope("sliding_attention", rope_theta=5000.0),
            "global_theta_as_local": changing_rope("full_attention", rope_theta=100.0),
            "query_scalar_from_head_dim": setting("query_pre_attn_scalar", 16),
        },
        lengths=LONG_LENGTHS,
        classic_extra={"sliding_window_pattern": 3},
    ),
    # Scaled full layers and a logit cap, in the pattern of a config that names none.
    Variant(
        "gemma3-linear",
        Gemma3TextConfig,
        {
            **GEMMA,
            **rope_by_layer((1000.0, 4.0), (10000.0,)),
            "num_hidden_layers": 6,
            "query_pre_attn_scalar": 16,
            "final_logit_softcapping": 5.0,
        },
        {
            **MIXED_WINDOWS,
            "scaling_dropped": changing_rope("full_attention", rope_type="default"),
            "scaling_in_sliding_layers": changing_rope("sliding_attention", rope_type="linear", factor=4.0),
            "logit_cap_dropped": setting("final_logit_softcapping", None),
        },
        lengths=SLIDING_LENGTHS,
        classic_type_key="rope_type",
    ),
    Variant(
        "cohere2",
        Cohere2Config,
        {**COHERE, **rope(), "num_hidden_layers": 4, "logit_scale": 0.25},
        {**THETA, **MIXED_WINDOWS, "logits_not_scaled": setting("logit_scale", 1.0)},
        lengths=LONG_LENGTHS,
    ),
    # Another pattern, as many KV heads as query heads, a head of its own, biases, scaled rotation.
    Variant(
        "cohere2-bias",
        Cohere2Config,
        {
            **COHERE,
            **rope("linear", theta=100.0, factor=2.0),
            "num_hidden_layers": 3,
            "num_key_value_heads": None,
            "sliding_window_pattern": 2,
            "attention_bias": True,
            "tie_word_embeddings": False,
            "logit_scale": 0.5,
            "layer_norm_eps": 0.1,
        },
        {**SCALING, **MIXED_WINDOWS, "default_eps": setting("layer_norm_eps", 1e-5)},
        lengths=SLIDING_LENGTHS,
        classic_extra={"sliding_window_pattern": 2},
    ),
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
}


def lowest_norm_weight(name, config):
    if not config.model_type.startswith("gemma"):
        return 0.5
    # Gemma stores what is added to 1. What its blocks add to the residual is normalised: more than 1,
    # or the scaled embedding would outweigh it and each token predict itself.
    return 1.5 if "post_" in name else -0.5


def random_weight(name, parameter, config, generator):
    """Values for one parameter: norms around 1, non-zero biases, weights scaled by their fan-in."""
    shape = parameter.shape
    if name.endswith("norm.weight"):
        return lowest_norm_weight(name, config) + torch.rand(shape, generator=generator)
    noise = torch.randn(shape, generator=generator)
    if name.endswith(".bias"):
        return 0.3 * noise
    logit_gain = LOGIT_STD / getattr(config, "logit_scale", 1.0)
    if "embed_tokens" in name:
        return noise * (logit_gain / shape[1] ** 0.5) if config.tie_word_embeddings else noise
    layer = name.split(".")[-2]
    gain = logit_gain if layer == "lm_head" else GAINS[layer]
    return noise * (gain / shape[1] ** 0.5)


def save_checkpoint(variant, seed, folder):
    config = variant.config_class(**variant.config)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            parameter.copy_(random_weight(name, parameter, config, generator))
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


def greedy_steps(variant, prompt):
    # A scaling makes room for more positions than the config's number, which no long prompt needs.
    if len(prompt) < LONG:
        return GREEDY_STEPS
    return min(GREEDY_STEPS, variant.config["max_position_embeddings"] - len(prompt))


@torch.no_grad()
def greedy(variant, model, prompt):
    """The ids chosen by plain argmax with a cache, and the smallest lead of a chosen id."""
    cache = DynamicCache(config=model.config)
    logits = token_by_token(model, prompt, cache) if variant.one_at_a_time else feed(model, prompt, cache)
    chosen, smallest_gap = [], float("inf")
    for _ in range(greedy_steps(variant, prompt)):
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


def rotations(model):
    """The frequencies and the attention scaling; by kind of layer where the model has several."""
    rotary = model.model.rotary_emb
    if hasattr(rotary, "original_inv_freq"):
        return rotary.original_inv_freq.tolist(), float(rotary.attention_scaling)
    return (
        {kind: getattr(rotary, f"{kind}_original_inv_freq").tolist() for kind in rotary.layer_types},
        {kind: float(getattr(rotary, f"{kind}_attention_scaling")) for kind in rotary.layer_types},
    )


def make_reference(variant, seed, folder):
    model = load(folder)
    frequencies, scaling = rotations(model)
    cases = make_cases(variant, model, seed)
    return {
        "about": about(variant, model),
        "vocab_size": model.config.vocab_size,
        "inv_freq": frequencies,
        "attention_scaling": scaling,
        "sensitivity": measure_sensitivity(variant, folder, model, cases[-1]["prompt_ids"]),
        "cases": cases,
    }


# --- The classic form of config.json ------------------------------------------------------------


def classic_config(variant, saved):
    """The config in the form published checkpoints had before transformers 5."""
    dropped = {
        "rope_parameters",
        "dtype",
        "layer_types",
        "sliding_window_pattern",
        "_sliding_window_pattern",
        "transformers_version",
        *variant.classic_without,
    }
    classic = {key: value for key, value in saved.items() if key not in dropped}
    scaling = dict(saved["rope_parameters"])
    if "sliding_attention" in scaling:
        classic["rope_local_base_freq"] = scaling["sliding_attention"]["rope_theta"]
        scaling = dict(scaling["full_attention"])
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
