"""Suite folders written on the spot, and a tokenizer whose ids can be told by hand."""

from __future__ import annotations

import json
import re
from hashlib import sha256

import jinja2
import pytest

from specbench.core.suite import Prompt, Suite
from specbench.suites.split import split_of

HEAD = """schema_version = 1
name = "demo"
version = "1.0.0"
title = "Demo"
license = "CC0-1.0"
digest = "{digest}"

[defaults]
max_new_tokens = 32

[categories]
x = "the letter x"
y = "the letter y"
"""


def row(id="a", category="x", turns=("U",), **more):
    return {"id": id, "category": category, "turns": list(turns), **more}


def digest_of(rows):
    lines = [json.dumps(r, sort_keys=True, ensure_ascii=False, separators=(",", ":")) for r in rows]
    return "sha256:" + sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


@pytest.fixture
def folder(tmp_path):
    """Write a suite; ``head`` edits suite.toml as (old, new), ``prompts`` replaces the bytes."""

    def write(rows, head=(), prompts=None, digest=None):
        path = tmp_path / "demo"
        path.mkdir(exist_ok=True)
        text = HEAD.format(digest=digest or digest_of(rows))
        for old, new in head:
            assert old in text
            text = text.replace(old, new)
        (path / "suite.toml").write_bytes(text.encode())
        lines = "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows)
        (path / "prompts.jsonl").write_bytes(lines.encode() if prompts is None else prompts)
        return path

    return write


@pytest.fixture
def suite():
    """A suite in memory from (id, category) or whole prompts."""

    def build(*items, name="demo"):
        prompts = tuple(
            item
            if isinstance(item, Prompt)
            else Prompt(id=item[0], category=item[1], split=split_of(name, item[0]), turns=("U",))
            for item in items
        )
        categories = {prompt.category: "" for prompt in prompts}
        return Suite(name, "1", "Demo", "CC0-1.0", "sha256:0", 32, categories, prompts)

    return build


class FakeTokenizer:
    """<s> is 1, <|end|> is 2, any other character is 100 + its code point."""

    def __init__(self, chat_template=None, bos=True):
        self.chat_template = chat_template
        self.bos = bos

    def apply_chat_template(
        self, conversation, *, chat_template=None, tokenize, add_generation_prompt, **options
    ):
        assert tokenize is False

        def raise_exception(message):
            raise jinja2.exceptions.TemplateError(message)

        template = jinja2.Environment().from_string(chat_template or self.chat_template)
        return template.render(
            messages=conversation,
            add_generation_prompt=add_generation_prompt,
            bos_token="<s>",
            raise_exception=raise_exception,
            **options,
        )

    def encode(self, text, *, add_special_tokens):
        pieces = re.findall(r"<s>|<\|end\|>|.", text, flags=re.DOTALL)
        ids = [{"<s>": 1, "<|end|>": 2}.get(p) or 100 + ord(p) for p in pieces]
        return [1, *ids] if add_special_tokens and self.bos else ids


@pytest.fixture
def tokenizer():
    return FakeTokenizer
