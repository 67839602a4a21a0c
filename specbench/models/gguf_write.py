"""From a model folder to a GGUF file with the same float32 weights, for llama.cpp.

Two engines can only be held against each other where they decode with the same numbers. The demo
model's own GGUF file is quantised; this writes what its conversion, and so the native engine, uses.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from specbench.errors import PrerequisiteError, UsageError
from specbench.models.folder import weight_files
from specbench.models.gguf_convert import Progress, silent
from specbench.models.gguf_vocabulary import gguf_vocabulary
from specbench.models.locate import Location, fetch_command

_LAYER = {
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
_OUTSIDE = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
F32 = 0
"""``general.file_type`` of a file in float32 (llama.cpp: LLAMA_FTYPE_ALL_F32)."""


def export(location: Location, to: Path, progress: Progress = silent) -> Path:
    """Write a Llama model as float32 GGUF; the file appears in one rename, complete.

    Smaller types are widened, which is exact. Reading the file back gives the same weights bit by
    bit and the same tokenizer.

    Args:
        location: a model folder on this disk.
        to: the file to make; its name ends in ``.gguf``.
        progress: called with one line of text per stage.

    Raises:
        UsageError: not a folder, or ``to`` exists or has another ending.
        PrerequisiteError: not on this disk, a package is missing, or a kind of model or tokenizer
            that this cannot write.
    """
    if to.suffix != ".gguf" or to.exists():
        why = "exists already" if to.exists() else "does not end in .gguf"
        raise UsageError(f"--to {to}: {why}", "name a new file, e.g. model-f32.gguf")
    if location.kind == "gguf":
        raise UsageError(f"{location.name} is a GGUF file already", "name a model folder")
    if location.path is None:
        raise PrerequisiteError(
            f"{location.name} is not on this disk",
            f"type: {fetch_command(location.name, location.revision)}",
        )
    to.parent.mkdir(parents=True, exist_ok=True)
    handle, work = tempfile.mkstemp(prefix=f".{to.name}.", dir=to.parent)
    os.close(handle)
    try:
        _write(location.path, location.name, Path(work), progress)
        os.chmod(work, 0o644)
        os.replace(work, to)
    finally:
        Path(work).unlink(missing_ok=True)
    return to


def _write(folder: Path, name: str, path: Path, progress: Progress) -> None:
    try:
        from gguf import GGUFWriter
        from safetensors import safe_open
        from transformers import AutoConfig, AutoTokenizer
    except ImportError as error:
        raise PrerequisiteError(
            f"writing GGUF files needs {error.name}", "type: pip install 'specbench-llm[native]'"
        ) from None
    config = AutoConfig.from_pretrained(folder, local_files_only=True)
    _check(folder, config)
    tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    writer = GGUFWriter(path, "llama")
    _describe(writer, config, name)
    _add_tokenizer(writer, folder, config, tokenizer)
    tensors: dict[str, Callable[[], Any]] = {}
    for file in weight_files(folder):
        source = safe_open(file, framework="pt")
        tensors |= {key: _reader(source, key) for key in source.keys()}  # noqa: SIM118
    if config.tie_word_embeddings:
        tensors.pop("lm_head.weight", None)
    progress(f"writing {len(tensors)} tensors in float32")
    # One pass for shapes, one for bytes: only one tensor is in memory at a time.
    for key, read in tensors.items():
        array = _rows(key, read(), config)
        writer.add_tensor_info(_gguf_name(key, folder), array.shape, array.dtype, array.nbytes)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for key, read in tensors.items():
        writer.write_tensor_data(_rows(key, read(), config))
    writer.close()


def _reader(source: Any, key: str) -> Callable[[], Any]:
    return lambda: source.get_tensor(key)


def _check(folder: Path, config: Any) -> None:
    why = ""
    if config.model_type != "llama":
        why = f"its architecture is {config.model_type}, not llama"
    elif (kind := config.rope_parameters.get("rope_type", "default")) != "default":
        why = f"its positions are scaled ({kind})"
    elif config.attention_bias or config.mlp_bias:
        why = "its linear layers have biases"
    if why:
        raise PrerequisiteError(
            f"{folder} cannot be written as GGUF here: {why}",
            "convert it with convert_hf_to_gguf.py of llama.cpp (--outtype f32)",
        )


def _describe(writer: Any, config: Any, name: str) -> None:
    head = config.head_dim or config.hidden_size // config.num_attention_heads
    writer.add_name(name)
    writer.add_file_type(F32)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(head)
    writer.add_value_length(head)
    writer.add_rope_dimension_count(head)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)


def _add_tokenizer(writer: Any, folder: Path, config: Any, tokenizer: Any) -> None:
    vocabulary = gguf_vocabulary(folder, config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(vocabulary.pre)
    writer.add_token_list(vocabulary.tokens)
    writer.add_token_types(vocabulary.types)
    writer.add_token_merges(vocabulary.merges)
    special = {
        "bos": writer.add_bos_token_id,
        "eos": writer.add_eos_token_id,
        "unk": writer.add_unk_token_id,
        "pad": writer.add_pad_token_id,
    }
    for kind, add in special.items():
        token = getattr(tokenizer, f"{kind}_token_id")
        if token is not None:
            add(token)
    bos = tokenizer.bos_token_id
    writer.add_add_bos_token(bos is not None and tokenizer.encode("a")[:1] == [bos])
    writer.add_add_space_prefix(False)
    if tokenizer.chat_template:
        writer.add_chat_template(tokenizer.chat_template)


def _gguf_name(key: str, folder: Path) -> str:
    if key in _OUTSIDE:
        return _OUTSIDE[key]
    parts = key.removesuffix(".weight").split(".", 3)
    if key.endswith(".weight") and parts[:2] == ["model", "layers"] and parts[3] in _LAYER:
        return f"blk.{parts[2]}.{_LAYER[parts[3]]}.weight"
    raise PrerequisiteError(
        f"{folder} cannot be written as GGUF here: unknown tensor {key}",
        "convert it with convert_hf_to_gguf.py of llama.cpp (--outtype f32)",
    )


def _rows(key: str, tensor: Any, config: Any) -> Any:
    """A tensor as float32 array; rows of queries and keys in the order of llama.cpp's rotation.

    Llama's checkpoints hold the halves of a head one after the other, llama.cpp turns neighbours.
    """
    array = tensor.float().numpy()
    heads = {
        "q_proj": config.num_attention_heads,
        "k_proj": config.num_key_value_heads,
    }.get(key.split(".")[-2] if "." in key else "")
    if heads is None:
        return array
    rows, columns = array.shape
    halves = array.reshape(heads, 2, rows // heads // 2, columns)
    return halves.swapaxes(1, 2).reshape(rows, columns)
