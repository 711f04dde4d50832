#!/usr/bin/env python3
"""Makes the reference fixtures that Halcyon's tests compare the engine with.

Everything is computed by Hugging Face transformers and tokenizers, on the CPU, in float32, from
random weights and from text written in these scripts: nothing is downloaded.

Usage, from the repository root:

    pip install "torch==2.11.*" "transformers==5.17.*" "tokenizers==0.23.*" "safetensors" "jinja2"
    python3 scripts/reference/make_fixtures.py
    python3 scripts/reference/make_fixtures.py --out /tmp/fixtures --only models --jobs 8

Options:

    --out DIR      where to write; by default engine-core/src/test/resources/fixtures
    --only PART    models, tokenizers or chat; may be repeated; by default all three
    --jobs N       how many checkpoints to make at once; by default 1

What is written (each part is emptied first):

    models/<variant>/config.json, config-classic.json, *.safetensors, reference.json, ...
    tokenizers/<kind>/tokenizer.json, tokenizer_config.json, reference.json
    chat/cases.json

The fields are described in make_models.py, make_tokenizers.py and make_chat.py. Tokenizers and chat
need no torch. Run again with the same versions, the scripts write the same files; another version of
torch may round differently and move logits by about 1e-5.
"""

import argparse
import shutil
from pathlib import Path

PARTS = ("models", "tokenizers", "chat")
DEFAULT_OUT = Path(__file__).resolve().parents[2] / "engine-core/src/test/resources/fixtures"


def parse_arguments():
    parser = argparse.ArgumentParser(description="Make the reference fixtures of Halcyon's tests.")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="where to write (default: %(default)s)")
    parser.add_argument("--only", action="append", choices=PARTS, help="make this part only; may be repeated")
    parser.add_argument("--jobs", type=int, default=1, help="checkpoints to make at once (default: 1)")
    return parser.parse_args()


def fresh_folder(path):
    if path.exists():
        shutil.rmtree(path)
    path.mkdir(parents=True)
    return path


def main():
    arguments = parse_arguments()
    parts = arguments.only or PARTS
    if "models" in parts:
        import make_models

        make_models.make(fresh_folder(arguments.out / "models"), arguments.jobs)
    if "tokenizers" in parts:
        import make_tokenizers

        make_tokenizers.make(fresh_folder(arguments.out / "tokenizers"))
    if "chat" in parts:
        import make_chat

        make_chat.make(fresh_folder(arguments.out / "chat"))


if __name__ == "__main__":
    main()
