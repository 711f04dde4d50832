#!/usr/bin/env python3
"""Holds the engine's BF16 logits and transformers' against transformers in float32, side by side.

    python3 scripts/large-model/compare.py --model DIR --prompts FILE     # writes prompts, then
    ... PromptLogits --model DIR --prompts FILE --out OURS                 # the engine's side, then
    python3 scripts/large-model/compare.py --model DIR --prompts FILE --ours OURS

`scripts/large-model/run` does all of it. The same rows are compared for both: those of each prompt and
of the tokens that the engine generated behind it, which transformers is fed. Errors are relative, the
size of the difference over the size of the float32 logits.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM

LENGTHS = (16, 100, 512, 1200)


def write_prompts(path, vocab):
    random = np.random.default_rng(1)
    path.write_text(json.dumps([random.integers(3, vocab, length).tolist() for length in LENGTHS]))


@torch.inference_mode()
def logits(model, ids):
    device = next(model.parameters()).device
    return model(torch.tensor([ids], device=device), use_cache=False).logits[0].float()


def prompt_logprobs(rows, prompt):
    targets = torch.tensor(prompt[1:], device=rows.device)[:, None]
    return torch.log_softmax(rows[: len(prompt) - 1], -1).gather(1, targets)[:, 0]


class Error:
    """Sums of one side's differences from float32."""

    def __init__(self):
        self.difference = self.size = self.largest = self.logprob = self.largest_logprob = 0.0
        self.agreed = self.rows = self.targets = 0

    def add(self, got, expected, prompt, logprobs):
        """logprobs are those of the prompt's ids from the second on; row i predicts id i + 1."""
        self.difference += float((got - expected).double().square().sum())
        self.size += float(expected.double().square().sum())
        self.largest = max(self.largest, float((got - expected).abs().max()))
        self.agreed += int((got.argmax(-1) == expected.argmax(-1)).sum())
        self.rows += got.shape[0]
        reference = prompt_logprobs(expected, prompt)
        mine = torch.tensor(logprobs, device=got.device)
        away = (mine - reference).abs()
        self.logprob += float(away.sum())
        self.largest_logprob = max(self.largest_logprob, float(away.max()))
        self.targets += len(mine)

    def row(self, name):
        return (
            f"| {name} | {(self.difference / self.size) ** 0.5:.3e} | {self.largest:.3f} | "
            f"{self.logprob / self.targets:.2e} | {self.largest_logprob:.3f} | "
            f"{self.agreed} of {self.rows} |"
        )


def compare(model_dir, prompts, ours, device):
    cases = json.loads(ours.with_suffix(".json").read_text())["cases"]
    sequences = [p + c["generated"][:-1] for p, c in zip(prompts, cases)]
    start = time.time()
    model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.bfloat16).to(device).eval()
    print(f"transformers loaded in {time.time() - start:.0f} s")
    theirs = [logits(model, ids).cpu() for ids in sequences]
    torch.set_float32_matmul_precision("highest")
    model.float()
    vocab = model.config.vocab_size
    values = np.memmap(ours, dtype="<f4", mode="r").reshape(-1, vocab)
    engine, transformers_, greedy, first = Error(), Error(), 0, 0
    for prompt, case, ids, bf16 in zip(prompts, cases, sequences, theirs):
        expected = logits(model, ids)
        got = torch.tensor(values[first : first + len(ids)], device=device)
        first += len(ids)
        engine.add(got, expected, prompt, case["prompt_logprobs"][:-1])
        bf16 = bf16.to(device)
        transformers_.add(bf16, expected, prompt, prompt_logprobs(bf16, prompt).tolist())
        taken = expected[len(prompt) - 1 :].argmax(-1).tolist()
        greedy += sum(a == b for a, b in zip(taken, case["generated"]))
    if first != values.shape[0]:
        raise SystemExit(f"{values.shape[0]} rows are there, {first} were expected")
    generated = sum(len(case["generated"]) for case in cases)
    print("| BF16 | relative error | largest | mean logprob error | largest | same likeliest token |")
    print("|---|---:|---:|---:|---:|---:|")
    print(engine.row("Halcyon"))
    print(transformers_.row("transformers"))
    print(f"greedy tokens that float32 takes too: {greedy} of {generated}")


def main():
    parser = argparse.ArgumentParser(description="Compare BF16 logits with transformers' float32.")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--prompts", type=Path, required=True)
    parser.add_argument("--ours", type=Path, help="what PromptLogits wrote; without it, writes prompts")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()
    vocab = json.loads((arguments.model / "config.json").read_text())["vocab_size"]
    if arguments.ours is None:
        write_prompts(arguments.prompts, vocab)
    else:
        prompts = json.loads(arguments.prompts.read_text())
        compare(arguments.model, prompts, arguments.ours, arguments.device)


if __name__ == "__main__":
    main()
