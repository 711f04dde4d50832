"""Small tokenizers, trained on the text below, with the ids and texts they give.

One folder per kind:

    tokenizer.json          as the tokenizers library writes it
    tokenizer_config.json   as transformers writes it
    reference.json          what a right implementation gives

reference.json:

    about       how the numbers were made
    encode      list of
        text                    the text to encode
        ids                     with the special tokens of the post-processor
        ids_without_special     without them
    decode      list of
        ids                     a list of ids
        prefixes                texts of the first 0, 1, 2, ... len(ids) of them, each decoded as a whole
        prefixes_skip_special   the same with special tokens left out

Kinds:

    sentencepiece-bpe       Llama 2 style: normalizer that marks spaces, byte fallback
    byte-level-bpe          GPT-2 style: bytes as letters, the pattern built into ByteLevel
    split-byte-level-bpe    Llama 3 style: NFC, its own split pattern, whole words before merges
    metaspace-bpe           Mistral style: Metaspace before the first piece only, byte fallback
    metaspace-unk-bpe       Metaspace on both sides, words apart, unknown characters fused to <unk>
"""

import json

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import PreTrainedTokenizerFast

MARK = "▁"
VOCAB_SIZE = 420
SPLIT_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

TRAINING_TEXT = """
The heron stands in the shallow water and waits. When the fish comes near, the heron strikes.
In the morning the harbour is quiet; in the evening the boats return and the gulls follow them.
A kingfisher, blue and orange, is the smallest fisher here - and the fastest.
The keeper of the lighthouse writes down the weather: wind from the west, seven knots, light rain.
She counted 12 boats on Monday, 34 on Tuesday and 567 in the whole month of March 2023.
"Where are they going?" asked the child. "They're going home," said the keeper. "We'll see them again."
It's not the tide that's late, it's the clock. I'd have set it; he'd have left it; you've seen worse.
def count(boats):
    return sum(1 for boat in boats if boat.name != "heron")
for (int i = 0; i < n; i++) { total += price[i] * 2; }
Лодка возвращается в гавань. Вечером тихо, и чайки летят над водой.
The water was still, the water was cold, the water was clear. Nothing moved but the light.
Some say that the lighthouse was built by the wind; others that the wind was built by the lighthouse.
"""

TEXTS = [
    "",
    " ",
    "a",
    "The heron waits.",
    " leading space",
    "   three leading spaces",
    "two  spaces,   three spaces,     five",
    "trailing space ",
    "line one\nline two\n\nline four\n",
    "\n\n  indented\n\tby a tab\r\n",
    "café",
    "cafe\u0301",
    "a dash — and another – and 'quotes' “curly”",
    "猫",
    "the 猫 sat; 犬も",
    "Лодка возвращается в гавань",
    "family 👨‍👩‍👧‍👦, flag 🇫🇷, thumbs 👍🏽",
    "They're HERE, it's 1234567 o'clock; we'LL see",
    "for (int i = 0; i < n; i++) { total += price[i] * 2; }",
    "non-breaking\u00a0space, zero\u200bwidth, tab\tend",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 ﬁ ½ ①",
    "\u0000\u0001\u007f control",
    "a▁b literal mark",
    "<0x41> is not a byte",
]

# Decoded besides the ids of the texts; {name} stands for the id of that token.
BYTE_TOKEN_LISTS = [
    ["<0xE7>", "<0x8C>", "<0xAB>"],
    ["<0xE7>", "<0x8C>", "▁the"],
    ["<0xFF>", "<0xE2>", "<0x82>", "<0xAC>", "<0xE2>"],
    ["▁", "▁", "t"],
    ["<s>", "▁the", "</s>", "▁the"],
]
BYTE_LEVEL_TOKEN_LISTS = [
    ["ç", "Į", "«"],
    ["ç", "Į", "Ġthe"],
    ["ÿ", "â", "Ĥ", "¬", "â"],
    ["Ġ", "Ġ", "t"],
]


def training_lines():
    return TRAINING_TEXT.strip().split("\n")


# --- Building -----------------------------------------------------------------------------------


def train_marked(first_tokens):
    """Vocabulary and merges over words marked with MARK, after the given tokens."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Metaspace(replacement=MARK, prepend_scheme="always", split=True)
    trainer = trainers.BpeTrainer(vocab_size=VOCAB_SIZE - len(first_tokens), show_progress=False)
    trained.train_from_iterator(training_lines(), trainer)
    description = json.loads(trained.to_str())["model"]
    ordered = sorted(description["vocab"], key=description["vocab"].get)
    merges = [tuple(merge) for merge in description["merges"]]
    # Runs of spaces, which a trainer that works word by word cannot find.
    for run in (MARK, MARK * 2):
        merges.append((run, run))
        ordered.append(run * 2)
    vocab = {token: index for index, token in enumerate(first_tokens + ordered)}
    return vocab, merges


def special(*contents):
    return [AddedToken(content, special=True, normalized=False) for content in contents]


def starting_with(tokenizer, token):
    return processors.TemplateProcessing(
        single=f"{token} $A",
        pair=f"{token} $A {token}:1 $B:1",
        special_tokens=[(token, tokenizer.token_to_id(token))],
    )


def byte_fallback_bpe():
    first = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    vocab, merges = train_marked(first)
    tokenizer = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.add_special_tokens(special("<unk>", "<s>", "</s>"))
    tokenizer.post_processor = starting_with(tokenizer, "<s>")
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace(MARK, " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(content=" ", left=1, right=0),
        ]
    )
    return tokenizer


def sentencepiece_bpe():
    tokenizer = byte_fallback_bpe()
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)])
    return tokenizer


def metaspace_bpe():
    tokenizer = byte_fallback_bpe()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement=MARK, prepend_scheme="first", split=False)
    return tokenizer


def metaspace_unk_bpe():
    vocab, merges = train_marked(["<unk>", "<s>", "</s>"])
    tokenizer = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True))
    tokenizer.add_special_tokens(special("<unk>", "<s>", "</s>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement=MARK, prepend_scheme="first", split=True)
    tokenizer.decoder = decoders.Metaspace(replacement=MARK, prepend_scheme="first", split=True)
    tokenizer.post_processor = starting_with(tokenizer, "<s>")
    return tokenizer


def train_byte_level(tokenizer):
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([TRAINING_TEXT], trainer)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def with_unmergeable_word(tokenizer, word):
    """Adds a word that no merges lead to, so that only ignore_merges finds it."""
    description = json.loads(tokenizer.to_str())
    vocab = description["model"]["vocab"]
    vocab[word] = len(vocab)
    return Tokenizer.from_str(json.dumps(description))


def byte_level_bpe():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    train_byte_level(tokenizer)
    tokenizer.add_special_tokens(special("<|begin|>", "<|end|>", "<|im_start|>", "<|im_end|>"))
    tokenizer.post_processor = starting_with(tokenizer, "<|begin|>")
    return tokenizer


def split_byte_level_bpe():
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT_PATTERN), behavior="isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer = with_unmergeable_word(train_byte_level(tokenizer), "Ġzinc")
    tokenizer.add_special_tokens(special("<|begin|>", "<|end|>"))
    # A token that is added but not special, and one that takes in the spaces around it.
    tokenizer.add_tokens([AddedToken("<think>", special=False, normalized=False)])
    tokenizer.add_special_tokens([AddedToken("<|mask|>", special=True, normalized=False, lstrip=True)])
    tokenizer.post_processor = processors.Sequence(
        [processors.ByteLevel(trim_offsets=False), starting_with(tokenizer, "<|begin|>")]
    )
    return tokenizer


# --- Reference ----------------------------------------------------------------------------------


def encode_cases(tokenizer, texts):
    return [
        {
            "text": text,
            "ids": tokenizer.encode(text, add_special_tokens=True).ids,
            "ids_without_special": tokenizer.encode(text, add_special_tokens=False).ids,
        }
        for text in texts
    ]


def decode_case(tokenizer, ids):
    def prefixes(skip):
        return [tokenizer.decode(ids[:length], skip_special_tokens=skip) for length in range(len(ids) + 1)]

    return {"ids": ids, "prefixes": prefixes(False), "prefixes_skip_special": prefixes(True)}


def ids_of(tokenizer, tokens):
    ids = [tokenizer.token_to_id(token) for token in tokens]
    if None in ids:
        raise AssertionError(f"not in the vocabulary: {tokens}")
    return ids


def reference(tokenizer, special_texts, token_lists):
    cases = encode_cases(tokenizer, TEXTS + special_texts)
    lists = [case["ids"] for case in cases if case["ids"]]
    lists += [ids_of(tokenizer, tokens) for tokens in token_lists]
    return {
        "about": "Hugging Face tokenizers: Tokenizer.encode, and Tokenizer.decode of every prefix as a whole.",
        "encode": cases,
        "decode": [decode_case(tokenizer, ids) for ids in lists],
    }


MARKED_SPECIAL_TEXTS = [
    "<s>",
    "<s>hello</s> world",
    "<s> hello </s>  <s>the",
    "the <unk> fish",
]
BYTE_LEVEL_SPECIAL_TEXTS = [
    "<|begin|>the water<|end|>",
    "<|im_start|>user\nWhere are they going?<|im_end|>\n<|im_start|>assistant\n",
    "a <|end|> b<|end|><|end|> c",
]
SPLIT_SPECIAL_TEXTS = [
    "<|begin|>the water<|end|>",
    "<think>\nthe tide</think> water",
    "the  <|mask|> was still",
    "a zinc roof",
]

# Kind -> how it is built, texts with its special tokens, further lists to decode, start and end token.
KINDS = {
    "sentencepiece-bpe": (sentencepiece_bpe, MARKED_SPECIAL_TEXTS, BYTE_TOKEN_LISTS, "<s>", "</s>"),
    "byte-level-bpe": (byte_level_bpe, BYTE_LEVEL_SPECIAL_TEXTS, BYTE_LEVEL_TOKEN_LISTS, "<|begin|>", "<|im_end|>"),
    "split-byte-level-bpe": (split_byte_level_bpe, SPLIT_SPECIAL_TEXTS, BYTE_LEVEL_TOKEN_LISTS, "<|begin|>", "<|end|>"),
    "metaspace-bpe": (metaspace_bpe, MARKED_SPECIAL_TEXTS, BYTE_TOKEN_LISTS, "<s>", "</s>"),
    "metaspace-unk-bpe": (metaspace_unk_bpe, MARKED_SPECIAL_TEXTS, [["▁", "t", "<s>", "▁the"]], "<s>", "</s>"),
}


def build(kind):
    return KINDS[kind][0]()


def wrap(kind):
    """The tokenizer as transformers uses it."""
    build_kind, _, _, start, end = KINDS[kind]
    unknown = {"unk_token": "<unk>"} if start == "<s>" else {}
    return PreTrainedTokenizerFast(
        tokenizer_object=build_kind(),
        bos_token=start,
        eos_token=end,
        clean_up_tokenization_spaces=False,
        **unknown,
    )


def check_transformers_agrees(kind, folder, cases):
    """The saved folder, loaded by transformers, gives the same ids."""
    loaded = PreTrainedTokenizerFast.from_pretrained(folder)
    for case in cases:
        for key, add in (("ids", True), ("ids_without_special", False)):
            if loaded.encode(case["text"], add_special_tokens=add) != case[key]:
                raise AssertionError(f"{kind}: transformers encodes {case['text']!r} otherwise")


def make(out):
    for kind, (_, special_texts, token_lists, _, _) in KINDS.items():
        folder = out / kind
        wrap(kind).save_pretrained(folder)
        saved = Tokenizer.from_file(str(folder / "tokenizer.json"))
        result = reference(saved, special_texts, token_lists)
        check_transformers_agrees(kind, folder, result["encode"])
        text = json.dumps(result, ensure_ascii=False, indent=None, separators=(",", ":"))
        (folder / "reference.json").write_text(text.replace('},{"', '},\n{"') + "\n", encoding="utf-8")
        print(f"{kind}: {saved.get_vocab_size()} tokens, {len(result['encode'])} texts", flush=True)
