"""Where a sequence of a model ends: its EOS ids and its longest context."""

from __future__ import annotations

from typing import Any

from specbench.errors import PrerequisiteError

END_OF_TURN = ("<|im_end|>", "<|eot_id|>", "<|eot|>", "<end_of_turn>", "<turn|>", "<|end|>")
"""Tokens that end an assistant turn. Some models name only their end of text as EOS."""


def context_limit(config: Any, tokenizer: Any) -> int:
    """Longest sequence in tokens, from the configuration, else from the tokenizer."""
    text = config.get_text_config(decoder=True)
    for name in ("max_position_embeddings", "n_positions", "max_seq_len"):
        if isinstance(limit := getattr(text, name, None), int):
            return limit
    # Tokenizers without a limit carry a huge number in its place.
    if tokenizer.model_max_length < 1 << 32:
        return int(tokenizer.model_max_length)
    raise PrerequisiteError(
        "the model's configuration gives no context length", "set max_position_embeddings in it"
    )


def eos_ids(model: Any, tokenizer: Any) -> tuple[int, ...]:
    """Every id that ends an answer: of generation config, config and tokenizer, and end of turn.

    An end-of-turn token counts where the chat template uses it.
    """
    found: set[int] = set()
    for holder in (model.generation_config, model.config.get_text_config(decoder=True), tokenizer):
        value = getattr(holder, "eos_token_id", None)
        found.update([value] if isinstance(value, int) else value or ())
    template = str(tokenizer.chat_template or "")
    vocabulary = tokenizer.get_vocab()
    found.update(vocabulary[t] for t in END_OF_TURN if t in template and t in vocabulary)
    return tuple(sorted(found))
