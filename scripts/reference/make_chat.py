"""Chat templates with the conversations they were rendered for and the text that came out.

The templates are the files of chat_templates/, written for these tests with the constructs that
published templates use. They are rendered as transformers does, with trim_blocks and lstrip_blocks.

cases.json is a list of

    name                    template, conversation and whether the reply is opened
    template                the template's text
    bos_token, eos_token    passed to the template under these names
    messages                passed to the template
    add_generation_prompt   passed to the template
    variables               further variables, passed under their names; absent when there are none
    expected                the rendered text, or null when the template raises
    expected_error          what it raises with raise_exception; absent when it renders

The template also sees tools and documents, both none (defined, but none).
"""

import json
from pathlib import Path

import jinja2

import make_tokenizers

TEMPLATES = Path(__file__).resolve().parent / "chat_templates"
TOKENIZER = "byte-level-bpe"


def message(role, content, **more):
    return {"role": role, "content": content, **more}


SHORT = [message("user", "Where do the boats go?")]
LONG = [
    message("system", "  You keep the lighthouse.\n"),
    message("user", " Where do the boats go? "),
    message("assistant", "\nOut — with the tide.  "),
    message("user", "And 猫?\nTwo lines, <b>\"quoted\"</b> & 'apostrophes'."),
]
ANSWERED = LONG + [message("assistant", "Cats stay ashore 👩‍🚀.")]
TWO_SYSTEMS = [message("system", "Be brief."), message("user", "Hi"), message("system", "Be kind.")]
WRONG_ORDER = [message("user", "One"), message("user", "Two")]
STRANGER = [message("user", "One"), message("narrator", "Meanwhile")]
EMPTY = [message("system", "Be brief."), message("user", " \n ")]
PARTS = [
    message("system", [{"type": "text", "text": "Look"}, {"type": "text", "text": "closely"}]),
    message("user", [{"type": "image"}, {"type": "text", "text": "What is it?"}], name="Ada"),
    message("assistant", "A heron."),
    message("user", {"type": "text"}),
]
UNKNOWN_PART = [message("user", [{"type": "video"}])]
THOUGHTS = [
    message("user", "1 + 1?"),
    message("assistant", "<think>\nadd them\n</think>\n\n2"),
    message("user", "And twice that?"),
    message("assistant", "\n4", reasoning_content="\ndouble it\n"),
    message("tool", "4"),
    message("user", "<note>checked</note>"),
    message("assistant", "<think>\nit was checked\n</think>\n\nStill 4"),
]
EXTRAS = [
    message("user", "Set it", extra={"b": [1, 2.5, None, True], "a": {"é": "<&>'\"\\\n"}, "empty": {}, "none": []}),
    message("assistant", "Done\t\u0001\u2028."),
]

# Template -> conversations, each with the settings of add_generation_prompt and further variables.
BOTH = (False, True)
PLAN = {
    "im_markers": [("short", SHORT, BOTH), ("long", LONG, BOTH), ("answered", ANSWERED, (False,))],
    "headers": [("short", SHORT, BOTH), ("long", LONG, BOTH), ("answered", ANSWERED, (False,))],
    "inst": [
        ("short", SHORT, (True,)),
        ("long", LONG, (True,)),
        ("answered", ANSWERED, (False,)),
        ("wrong-order", WRONG_ORDER, (True,)),
    ],
    "namespace": [("short", SHORT, BOTH), ("answered", ANSWERED, BOTH), ("two-systems", TWO_SYSTEMS, (True,))],
    "parts": [("short", SHORT, BOTH), ("parts", PARTS, BOTH), ("unknown-part", UNKNOWN_PART, (True,))],
    "thinking": [
        ("short", SHORT, BOTH),
        ("long", LONG, (True,)),
        ("thoughts", THOUGHTS, BOTH),
        ("not-thinking", SHORT, (True,), {"enable_thinking": False}),
        ("thinking", SHORT, (True,), {"enable_thinking": True}),
    ],
    "json_turns": [("short", SHORT, BOTH), ("long", LONG, (True,)), ("extras", EXTRAS, BOTH)],
    "strict": [
        ("long", LONG, BOTH),
        ("stranger", STRANGER, (True,)),
        ("two-systems", TWO_SYSTEMS, (False,)),
        ("empty", EMPTY, (True,)),
    ],
    "whitespace": [("short", SHORT, BOTH), ("long", LONG, BOTH)],
    "expressions": [("short", SHORT, BOTH), ("answered", ANSWERED, (False,))],
    "rarities": [("short", SHORT, BOTH), ("answered", ANSWERED, (False,))],
}


def render(tokenizer, case):
    """The case's outcome: its text, or the message that the template raised."""
    try:
        text = tokenizer.apply_chat_template(
            case["messages"],
            chat_template=case["template"],
            add_generation_prompt=case["add_generation_prompt"],
            tokenize=False,
            **case.get("variables", {}),
        )
    except jinja2.exceptions.TemplateError as error:
        if type(error) is not jinja2.exceptions.TemplateError:
            raise
        return {"expected": None, "expected_error": error.message}
    return {"expected": text}


def make_case(tokenizer, template_name, conversation, messages, add_generation_prompt, variables=None):
    case = {
        "name": f"{template_name}, {conversation}{', reply opened' if add_generation_prompt else ''}",
        "template": (TEMPLATES / f"{template_name}.jinja").read_text(encoding="utf-8"),
        "bos_token": tokenizer.bos_token,
        "eos_token": tokenizer.eos_token,
        "messages": messages,
        "add_generation_prompt": add_generation_prompt,
    }
    if variables:
        case["variables"] = variables
    return {**case, **render(tokenizer, case)}


def make(out):
    tokenizer = make_tokenizers.wrap(TOKENIZER)
    cases = [
        make_case(tokenizer, template_name, conversation, messages, add_generation_prompt, *variables)
        for template_name, conversations in PLAN.items()
        for conversation, messages, settings, *variables in conversations
        for add_generation_prompt in settings
    ]
    text = json.dumps(cases, ensure_ascii=False, indent=1)
    (out / "cases.json").write_text(text + "\n", encoding="utf-8")
    print(f"chat: {len(cases)} cases", flush=True)
