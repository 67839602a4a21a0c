"""A target that goes on with an alphabet from the last letter of a prompt, and then ends.

Its layers but one add nothing. That one looks up the letter behind: letters are axes of the hidden
state, the middle layer's MLP adds the next axis, and the output projection reads it. So what comes
next depends on the last token alone, answers end by themselves, and no answer loops. A head that
has no idea of that layer drafts the same letter again.
"""

from __future__ import annotations

import json
import random
import string
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from tests.models.tiny import SPECIAL, byte_level_tokens, write_tokenizer

LETTERS = "".join(random.Random(3).sample(string.ascii_lowercase, 26))
"""The alphabet in the target's order."""
HIDDEN, LAYERS, WORKING = 32, 6, 2
AHEAD = 3.0
"""Size of the next letter's axis against that of the letter itself."""
SURE = 1.6
"""How sure the target is: the next letter has nearly all of the probability at temperature 1."""
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m['content'] }}{% endfor %}"


def ids() -> list[int]:
    """Token ids of the letters in the target's order, then of the end."""
    tokens = byte_level_tokens()
    return [*(tokens.index(letter) for letter in LETTERS), tokens.index(SPECIAL[0])]


def write_target(folder: Path) -> Path:
    """The model, its tokenizer and a template that a prompt's last letter ends."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(byte_level_tokens()),
            hidden_size=HIDDEN,
            intermediate_size=HIDDEN,
            num_hidden_layers=LAYERS,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=128,
            tie_word_embeddings=False,
            bos_token_id=1,
            eos_token_id=0,
            pad_token_id=0,
        )
    )
    _plant(model, ids())
    model.save_pretrained(folder)
    write_tokenizer(folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


@torch.no_grad()
def _plant(model: Any, live: list[int]) -> None:
    count, last = len(live), HIDDEN - 1
    embedding, output = model.model.embed_tokens.weight, model.lm_head.weight
    # What is no letter has a place of its own, and is never said.
    embedding.normal_(std=0.1)[:, :count] = 0
    output.zero_()
    output[:, last] = -SURE
    for axis, token in enumerate(live):
        embedding[token] = 0
        embedding[token, axis] = 1
        output[token] = 0
        output[token, axis] = SURE
    embedding[:, last] = 0.5
    for layer in model.model.layers:
        layer.self_attn.o_proj.weight.zero_()
        layer.mlp.down_proj.weight.zero_()
    mlp = model.model.layers[WORKING].mlp
    mlp.gate_proj.weight.copy_(torch.eye(HIDDEN))
    mlp.up_proj.weight.copy_(torch.eye(HIDDEN))
    entering = embedding[live[0]] / embedding[live[0]].square().mean().sqrt()
    size = float(torch.nn.functional.silu(entering[0]) * entering[0])
    for axis in range(count - 1):
        mlp.down_proj.weight[axis + 1, axis] = AHEAD / size


def spelled(letter: str) -> list[int]:
    """The greedy answer behind a letter, from the alphabet alone."""
    return ids()[LETTERS.index(letter) + 1 :]


def write_prompts(path: Path, count: int = 60, seed: int = 0) -> Path:
    """A suite file of short prompts that end with a letter of the first half."""
    chance = random.Random(seed)
    lines = []
    for number in range(count):
        words = "".join(chance.choice(string.digits) for _ in range(6))
        lines.append({"id": f"p{number}", "prompt": f"{words} {chance.choice(LETTERS[:16])}"})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def law(letter: str, temperature: float = 1.0) -> Tensor:
    """Probabilities behind a letter, by hand: three axes are not zero."""
    place = LETTERS.index(letter)
    state = torch.zeros(HIDDEN)
    state[place], state[place + 1], state[HIDDEN - 1] = 1, AHEAD, 0.5
    state /= state.square().mean().add(1e-6).sqrt()
    logits = torch.full((len(byte_level_tokens()),), -SURE * float(state[HIDDEN - 1]))
    for axis, token in enumerate(ids()):
        logits[token] = SURE * state[axis]
    return (logits / temperature).softmax(0)
