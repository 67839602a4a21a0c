"""llama.cpp's own HTTP server in a process of its own, by way of the wheel ``xllamacpp``.

Run as ``python -m specbench.engines.servers.llamacpp_child --model FILE.gguf --port N``; serves
until SIGTERM. Every setting that llama.cpp would choose from the machine, keep between requests or
change to fit is pinned here, so that two runs decode alike.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import Any

from specbench.errors import PrerequisiteError
from specbench.models.gguf_tokenizer import read_facts

TYPES = {
    "draft-simple": "DRAFT_SIMPLE",
    "draft-eagle3": "DRAFT_EAGLE3",
    "draft-mtp": "DRAFT_MTP",
    "ngram-simple": "NGRAM_SIMPLE",
    "ngram-map-k": "NGRAM_MAP_K",
    "ngram-map-k4v": "NGRAM_MAP_K4V",
    "ngram-mod": "NGRAM_MOD",
    "ngram-cache": "NGRAM_CACHE",
}
"""Our spelling (that of llama-server's ``--spec-type``) -> xllamacpp's."""

MAPS = {
    "ngram-simple": "ngram_simple",
    "ngram-map-k": "ngram_map_k",
    "ngram-map-k4v": "ngram_map_k4v",
}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parse = argparse.ArgumentParser(prog="llamacpp_child", allow_abbrev=False)
    parse.add_argument("--model", required=True, metavar="FILE.gguf")
    parse.add_argument("--alias", default="", help="name that /v1/models lists")
    parse.add_argument("--host", default="127.0.0.1")
    parse.add_argument("--port", type=int, required=True)
    parse.add_argument("--parallel", type=int, default=1, help="requests at a time")
    parse.add_argument("--ctx-size", type=int, default=0, help="tokens per request; 0: the model's")
    parse.add_argument("--kv", choices=("f32", "f16"), default="f16", help="type of keys, values")
    parse.add_argument("--threads", type=int, required=True)
    parse.add_argument("--gpu-layers", type=int, default=-1)
    parse.add_argument("--flash-attention", action="store_true")
    parse.add_argument("--cache-prompt", action="store_true", help="reuse prefixes of a slot")
    parse.add_argument("--spec-type", choices=("none", *TYPES), default="none")
    parse.add_argument("--draft-max", type=int, default=0, help="K")
    parse.add_argument("--draft-min", type=int, default=0)
    parse.add_argument("--draft-model", default="", metavar="FILE.gguf")
    parse.add_argument("--draft-p-min", type=float, default=0.0)
    parse.add_argument(
        "--draft-probabilistic", action="store_true", help="sample drafts; rejection sampling"
    )
    parse.add_argument("--ngram-size", type=int, default=3)
    parse.add_argument("--ngram-min-hits", type=int, default=1)
    parse.add_argument("--synth-length", type=float, default=-1.0)
    parse.add_argument("--synth-rates", type=_numbers, default=[], metavar="A,B,...")
    return parse


def _numbers(text: str) -> list[float]:
    return [float(number) for number in text.split(",")]


def parameters(options: argparse.Namespace, x: Any) -> Any:
    """``CommonParams`` of the module ``x`` (xllamacpp) for a parsed command line."""
    params = x.CommonParams()
    params.model.path = options.model
    if options.alias:
        params.model_alias = {options.alias}
    params.hostnames = [options.host]
    params.port = options.port
    params.n_parallel = options.parallel
    params.n_ctx = options.parallel * (options.ctx_size or _trained_context(options))
    params.cache_type_k = params.cache_type_v = _kv(options, x)
    params.flash_attn_type = (
        x.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED
        if options.flash_attention
        else x.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    )
    for cpu in (params.cpuparams, params.cpuparams_batch):
        cpu.n_threads = options.threads
    params.n_gpu_layers = options.gpu_layers
    params.cache_prompt = options.cache_prompt
    params.cache_ram_mib = 0
    params.cache_idle_slots = False
    params.ctx_shift = False
    params.fit_params = False
    params.endpoint_metrics = True
    params.ui = False
    params.offline = True
    _speculate(params.speculative, options, x)
    return params


def _trained_context(options: argparse.Namespace) -> int:
    """The model's own context; 0, llama.cpp's word for it, where one request has it all.

    llama.cpp divides its context among the requests at a time.
    """
    if options.parallel == 1:
        return 0
    facts = read_facts(Path(options.model))
    found = facts.metadata.get(f"{facts.architecture}.context_length")
    if not isinstance(found, int):
        raise PrerequisiteError(
            f"{options.model} does not say how long its context is", "set [target] context"
        )
    return found


def _kv(options: argparse.Namespace, x: Any) -> Any:
    return x.ggml_type.GGML_TYPE_F32 if options.kv == "f32" else x.ggml_type.GGML_TYPE_F16


def _speculate(speculative: Any, options: argparse.Namespace, x: Any) -> None:
    if options.spec_type == "none":
        return
    name = f"COMMON_SPECULATIVE_TYPE_{TYPES[options.spec_type]}"
    speculative.types = [getattr(x.common_speculative_type, name)]
    draft = speculative.draft
    draft.n_max, draft.n_min = options.draft_max, options.draft_min
    draft.p_min = options.draft_p_min
    draft.probabilistic = options.draft_probabilistic
    draft.cache_type_k = draft.cache_type_v = _kv(options, x)
    draft.n_gpu_layers = options.gpu_layers
    for cpu in (draft.cpuparams, draft.cpuparams_batch):
        cpu.n_threads = options.threads
    if options.draft_model:
        draft.mparams.path = options.draft_model
    if options.spec_type in MAPS:
        lookup = getattr(speculative, MAPS[options.spec_type])
        lookup.size_n, lookup.size_m = options.ngram_size, options.draft_max
        lookup.min_hits = options.ngram_min_hits
    if options.spec_type == "ngram-mod":
        lookup = speculative.ngram_mod
        lookup.n_match, lookup.n_max = options.ngram_size, options.draft_max
        lookup.n_min = options.draft_min
    speculative.synth_len = options.synth_length
    speculative.synth_rates = options.synth_rates


def main(arguments: list[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; 1 where the model cannot be loaded."""
    options = parser().parse_args(arguments)
    try:
        xllamacpp: Any = import_module("xllamacpp")
    except ImportError:
        sys.stderr.write("no xllamacpp: pip install 'specbench-llm[serve-llamacpp]'\n")
        return 1
    done = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: done.set())
    try:
        # It serves from threads of its own for as long as it is referenced.
        server = xllamacpp.Server(parameters(options, xllamacpp))
    except (RuntimeError, ValueError, OSError, PrerequisiteError) as error:
        sys.stderr.write(f"llama.cpp cannot serve {options.model}: {error}\n")
        if options.parallel > 1 and isinstance(error, RuntimeError):
            sys.stderr.write("a shorter [target] context, or fewer requests, need less memory\n")
        return 1
    # A wait without a limit would hold back the handlers of signals on some systems.
    while not done.wait(1.0):
        pass
    del server
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
