"""From a GGUF file to a safetensors folder that loads in seconds.

Dequantising takes many times longer than loading, so it is done once and the result is kept.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from specbench.errors import PrerequisiteError
from specbench.models.folder import CONVERTER_VERSION, RECORD, read_record
from specbench.models.gguf_tokenizer import GgufFacts, build_tokenizer, read_facts
from specbench.models.weights import file_sha256, weight_hash

Progress = Callable[[str], None]


def silent(_: str) -> None:
    """The progress callback that says nothing."""


def convert(
    gguf_path: Path,
    out_dir: Path,
    *,
    progress: Progress = silent,
    notes: Mapping[str, object] | None = None,
    sha256: str | None = None,
) -> Path:
    """Write a GGUF model as fp32 safetensors, configuration and tokenizer into ``out_dir``.

    The folder appears in one rename, complete, and holds ``specbench.json`` with the source's
    SHA-256, the converter version, the weight hash and everything found odd about the tokenizer.
    A folder that this converter already made from the same file is returned as it is.

    Args:
        gguf_path: the file.
        out_dir: the folder to make.
        progress: called with one line of text per stage.
        notes: added to the record.
        sha256: of the file, where the caller has just computed it.

    Raises:
        PrerequisiteError: a package is missing, the architecture is not supported, tensors are
            missing, or the tokenizer's vocabulary differs from the GGUF file's own token list.
    """
    digest = sha256 or file_sha256(gguf_path)
    record = read_record(out_dir)
    if record is not None and record.get("source_sha256") == digest:
        return out_dir
    out_dir.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{out_dir.name}.", dir=out_dir.parent))
    try:
        facts = read_facts(gguf_path)
        progress(f"dequantising {gguf_path.name} (once; under a minute for a small model)")
        _write_model(gguf_path, work)
        progress("building and checking the tokenizer")
        odd = build_tokenizer(gguf_path, facts, work)
        _write_record(work, gguf_path, digest, facts, odd, notes or {})
        _publish(work, out_dir, digest)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return out_dir


def _write_model(gguf_path: Path, out: Path) -> None:
    try:
        import torch
        from safetensors.torch import save_file
        from transformers import AutoConfig, AutoModelForCausalLM
        from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint
    except ImportError as error:
        raise PrerequisiteError(
            f"reading GGUF files needs {error.name}", "type: pip install 'specbench-llm[native]'"
        ) from None
    try:
        config = AutoConfig.from_pretrained(
            str(gguf_path.parent), gguf_file=gguf_path.name, local_files_only=True
        )
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        # Not from_pretrained(gguf_file=...): that needs accelerate, and save_pretrained refuses
        # what it returns. The reader draws its bar whatever the terminal is, hence the redirection.
        with contextlib.redirect_stderr(io.StringIO()):
            loaded = load_gguf_checkpoint(str(gguf_path), return_tensors=True, model_to_load=model)
    except (ValueError, NotImplementedError, KeyError) as error:
        raise PrerequisiteError(
            f"transformers cannot read {gguf_path.name}: {error}",
            "use the model's safetensors folder instead",
        ) from error
    tensors = {n: t.to(torch.float32).contiguous() for n, t in loaded["tensors"].items()}
    tied = _check_complete(model, tensors, gguf_path)
    config.tie_word_embeddings = bool(tied)
    config.architectures = [type(model).__name__]
    config.dtype = torch.float32
    for remnant in ("quantization_config", "_name_or_path", "_model_name_or_path"):
        if hasattr(config, remnant):
            delattr(config, remnant)
    weights = out / "model.safetensors"
    save_file(tensors, weights, metadata={"format": "pt"})
    weights.chmod(0o644)
    config.save_pretrained(out)
    model.generation_config.save_pretrained(out)


def _check_complete(model: Any, tensors: Mapping[str, object], path: Path) -> set[str]:
    """The output embedding's names if it is tied to the input; refuses any other missing tensor."""
    names = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    missing = names - set(tensors)
    tied = missing & set(getattr(model, "_tied_weights_keys", None) or ())
    if missing - tied:
        raise PrerequisiteError(
            f"{path.name} lacks {len(missing - tied)} tensors, first {min(missing - tied)}",
            "use the model's safetensors folder instead",
        )
    return tied


def _write_record(
    work: Path,
    gguf_path: Path,
    digest: str,
    facts: GgufFacts,
    odd: list[str],
    notes: Mapping[str, object],
) -> None:
    import transformers

    record = {
        "converter_version": CONVERTER_VERSION,
        "source_file": gguf_path.name,
        "source_sha256": digest,
        "source_name": facts.name,
        "source_tensor_types": dict(facts.tensor_types),
        "weight_hash": weight_hash(work, cached=False),
        "transformers": transformers.__version__,
        "tokenizer_notes": odd,
        **notes,
    }
    (work / RECORD).write_text(json.dumps(record, indent=2) + "\n")


def _publish(work: Path, out_dir: Path, digest: str) -> None:
    """Move a finished folder into place; where another process was faster, keep the other's."""
    work.chmod(0o755)
    try:
        os.rename(work, out_dir)
        return
    except OSError:
        record = read_record(out_dir)
        if record is not None and record.get("source_sha256") == digest:
            return
    # An outdated or broken folder is in the way. A directory cannot be replaced in one call.
    old = Path(tempfile.mkdtemp(prefix=f".{out_dir.name}.old.", dir=out_dir.parent))
    os.replace(out_dir, old)
    os.rename(work, out_dir)
    shutil.rmtree(old)
