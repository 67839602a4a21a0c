"""Tiny models, tokenizers and GGUF files; torch is imported when they are made."""

from __future__ import annotations

from pathlib import Path

CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MERGES = (("Ġ", "Ġ"), ("ĠĠ", "Ġ"), ("h", "e"), ("l", "l"))


def byte_level_tokens() -> list[str]:
    """Three special tokens, the 256 byte tokens and four merges."""
    from tokenizers.pre_tokenizers import ByteLevel

    alphabet = sorted(ByteLevel.alphabet())
    return [*SPECIAL, *alphabet, *("".join(pair) for pair in MERGES)]


def tiny_model(seed: int = 0, *, rows: int | None = None, tied: bool = True) -> object:
    """A two-layer Llama with random weights."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=rows or len(byte_level_tokens()),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        tie_word_embeddings=tied,
        bos_token_id=1,
        eos_token_id=0,
        pad_token_id=0,
    )
    return LlamaForCausalLM(config).eval()


def write_tokenizer(folder: Path) -> None:
    """A byte-level BPE tokenizer whose EOS is the end of text, not the end of the turn."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {token: i for i, token in enumerate(byte_level_tokens())}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=list(MERGES)))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token=SPECIAL[0], additional_special_tokens=list(SPECIAL[1:])
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(folder)


def write_gguf(path: Path, model: object, *, pre: str = "smollm", drop: str = "") -> None:
    """Write a tiny Llama as llama.cpp's converter does: fp32, rotary halves interleaved."""
    from gguf import GGUFWriter

    config = model.config  # type: ignore[attr-defined]
    writer = GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_vocab_size(config.vocab_size)
    tokens = byte_level_tokens()
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in SPECIAL else 1 for token in tokens])
    writer.add_token_merges([" ".join(pair) for pair in MERGES])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)
    for name, tensor in gguf_tensors(model):
        if name != drop:
            writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def gguf_tensors(model: object) -> list[tuple[str, object]]:
    """Tensors of a Llama under their GGUF names."""
    config = model.config  # type: ignore[attr-defined]
    names = {
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
    }
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    weights = {k: v.detach().numpy() for k, v in model.state_dict().items()}  # type: ignore[attr-defined]
    out = [("token_embd.weight", weights["model.embed_tokens.weight"])]
    out.append(("output_norm.weight", weights["model.norm.weight"]))
    if not config.tie_word_embeddings:
        out.append(("output.weight", weights["lm_head.weight"]))
    for layer in range(config.num_hidden_layers):
        for theirs, ours in names.items():
            tensor = weights[f"model.layers.{layer}.{theirs}.weight"]
            if n := heads.get(ours):
                rows, columns = tensor.shape
                halves = tensor.reshape(n, 2, rows // n // 2, columns)
                tensor = halves.swapaxes(1, 2).reshape(rows, columns).copy()
            out.append((f"blk.{layer}.{ours}.weight", tensor))
    return out
