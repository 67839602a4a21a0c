"""The table model as a checkpoint that transformers loads: a reference whose law is known."""

from __future__ import annotations

from pathlib import Path

from tests.engines.fake_server.table_model import END, SPECIAL, START, VOCABULARY, TableModel

TEMPLATE = "{{ bos_token }}{% for m in messages %} {{ m['content'] }}{% endfor %}"
"""Start token, then the messages without marks: the ids of ``speaker.prompt_of`` behind a start."""
EMBEDDED = 100.0
"""Large against the epsilon of the final norm."""


def write_checkpoint(folder: Path, model: TableModel) -> None:
    """A Llama of one layer whose attention and MLP add nothing; its logits are the table's.

    Embeddings are one-hot, so the final norm gives sqrt(48) at the last token and the head holds
    the table divided by that. In float32 logits differ from the table by rounding only.
    """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    size = len(VOCABULARY)
    config = LlamaConfig(
        vocab_size=size,
        hidden_size=size,
        intermediate_size=size,
        num_hidden_layers=1,
        num_attention_heads=3,
        num_key_value_heads=3,
        max_position_embeddings=512,
        tie_word_embeddings=False,
        bos_token_id=START,
        eos_token_id=END,
        pad_token_id=END,
    )
    table = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        table.model.embed_tokens.weight.copy_(EMBEDDED * torch.eye(size))
        table.model.layers[0].self_attn.o_proj.weight.zero_()
        table.model.layers[0].mlp.down_proj.weight.zero_()
        table.lm_head.weight.copy_(torch.tensor(model.logits.T / size**0.5))
    table.save_pretrained(folder)
    write_tokenizer(folder)


def write_tokenizer(folder: Path, template: str = TEMPLATE) -> None:
    """The tokenizer of the table model: words of the table, one token each; no start is added."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    pieces = {name: number for number, name in enumerate(SPECIAL)}
    pieces |= {f"▁{word}": number for number, word in enumerate(VOCABULARY) if word not in SPECIAL}
    backend = Tokenizer(models.WordLevel(pieces, unk_token=SPECIAL[START]))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token=SPECIAL[START], eos_token=SPECIAL[END]
    )
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
