"""The tokenizer behind a server's model: loaded late, without weights, and only from this disk."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from specbench.core.cache import cache_folder
from specbench.core.prompt import Message, RenderedPrompt
from specbench.core.request import Stops
from specbench.errors import PrerequisiteError, SpecbenchError
from specbench.models.folder import TOKENIZER_FILES
from specbench.models.locate import Location, locate
from specbench.suites.templates import NO_TEMPLATE, render

SERVER_TEMPLATE = "server"
"""Name of the template where the server renders and we cannot see how."""


@dataclass(frozen=True, slots=True)
class ModelTokens:
    """A tokenizer and what its model's configuration says.

    Attributes:
        location: where it was found.
        eos_ids: every id that ends an answer, sorted.
        context: longest sequence; None where the configuration does not say.
    """

    tokenizer: Any
    location: Location
    eos_ids: tuple[int, ...]
    context: int | None

    def render(
        self,
        messages: Sequence[Message],
        template: str | None,
        policy: str,
        passed_on: Mapping[str, object],
    ) -> RenderedPrompt:
        """Chat template and tokenisation, see ``suites.templates.render``."""
        return render(
            self.tokenizer,
            messages,
            template=template,
            system_policy=policy,
            passed_on=passed_on,
        )

    def for_adding(self, rendered: RenderedPrompt) -> str:
        """The text of a prompt for a server that adds the tokenizer's special tokens to it.

        A template that has written the start token would get a second one (case E6), so the text
        goes without its own where the ids then come out right. Where neither way gives the ids the
        text stays whole; the server's count of the prompt then shows the difference.
        """
        start = str(getattr(self.tokenizer, "bos_token", None) or "")
        bare = rendered.text.removeprefix(start)
        ids = tuple(self.tokenizer.encode(bare, add_special_tokens=True))
        return bare if ids == rendered.token_ids else rendered.text

    def starts(self, text: str) -> list[int]:
        """Where the tokens of a text begin, in characters, without special tokens."""
        if getattr(self.tokenizer, "is_fast", False):
            encoded = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
            return [int(start) for start, _ in encoded["offset_mapping"]]
        # A slow tokenizer knows no places: its tokens are taken to be of equal length.
        count = len(self.tokenizer.encode(text, add_special_tokens=False))
        return [index * len(text) // count for index in range(count)]


def open_tokens(
    named: str | None, target: str, revision: str | None, template: str | None
) -> ModelTokens | None:
    """The tokenizer that renders prompts.

    Args:
        named: ``[server] tokenizer``; None = the target's, where it is found on this disk.
        template: the experiment's; one that must be rendered here needs a tokenizer.

    Returns:
        None where none is named and none is found: the server then renders and counts.

    Raises:
        PrerequisiteError: a named tokenizer cannot be found or loaded, or a template is given and
            there is no tokenizer to render it.
    """
    if named is not None:
        try:
            return _load(_located(named, revision if named == target else None))
        except SpecbenchError as error:
            raise PrerequisiteError(
                f"tokenizer {named!r} cannot be used: {error.message}",
                "give a model folder, GGUF file or fetched model with --tokenizer or [server] "
                "tokenizer; without one, prompts go to the server's chat route",
            ) from error
    try:
        return _load(_located(target, revision))
    except SpecbenchError as error:
        if template in (None, NO_TEMPLATE):
            return None
        raise PrerequisiteError(
            f"a chat template is given, but there is no tokenizer for {target!r} to render it "
            f"with: {error.message}",
            "give one with --tokenizer or [server] tokenizer, or leave the template to the server",
        ) from error


def without_tokens(
    messages: Sequence[Message],
    template: str | None,
    passed_on: Mapping[str, object] | None = None,
) -> RenderedPrompt:
    """A conversation that only the server can render: its texts, and a hash of it as it is sent.

    Args:
        passed_on: fields that go with it, such as ``tools``; part of the hash where there are any.
    """
    conversation = [dict(message) for message in messages]
    canonical = json.dumps(
        {"messages": conversation, **passed_on} if passed_on else conversation,
        sort_keys=True,
        ensure_ascii=False,
        separators=(",", ":"),
    )
    return RenderedPrompt(
        token_ids=(),
        text="\n\n".join(str(message["content"]) for message in messages),
        digest=hashlib.sha256(canonical.encode()).hexdigest(),
        template=NO_TEMPLATE if template == NO_TEMPLATE else SERVER_TEMPLATE,
        tokenised=False,
    )


def stops_of(tokens: ModelTokens | None, strings: Sequence[str]) -> Stops:
    """End ids, where a tokenizer knows them, and the given strings."""
    return Stops(() if tokens is None else tokens.eos_ids, tuple(strings))


def _located(name: str, revision: str | None) -> Location:
    folder = Path(name).expanduser()
    # A tokenizer is often all there is here: the weights are where the server is.
    if any((folder / file).is_file() for file in TOKENIZER_FILES):
        return Location("folder", name, None, folder, f"folder {name}")
    location = locate(name, revision=revision, offline=True)
    assert location.path is not None
    return location


def _load(location: Location) -> ModelTokens:
    from specbench.models.checkpoint import load_tokenizer
    from specbench.models.sequence_ends import eos_ids

    assert location.path is not None
    folder = _from_gguf(location.path) if location.kind == "gguf" else location.path
    tokenizer = load_tokenizer(folder)
    config = _json(folder / "config.json")
    text = config.get("text_config") or config
    limits = ("max_position_embeddings", "n_positions", "max_seq_len")
    found = [text[name] for name in limits if isinstance(text.get(name), int)]
    model = SimpleNamespace(
        config=SimpleNamespace(
            get_text_config=lambda decoder: SimpleNamespace(eos_token_id=text.get("eos_token_id"))
        ),
        generation_config=SimpleNamespace(
            eos_token_id=_json(folder / "generation_config.json").get("eos_token_id")
        ),
    )
    return ModelTokens(tokenizer, location, eos_ids(model, tokenizer), next(iter(found), None))


def _from_gguf(path: Path) -> Path:
    """A folder with the tokenizer of a GGUF file, made once; its weights are not touched."""
    from specbench.models.gguf_tokenizer import build_tokenizer, read_facts
    from specbench.models.weights import file_sha256

    folder = cache_folder() / "tokenizers" / file_sha256(path)[:16]
    if not (folder / "config.json").is_file():
        facts = read_facts(path)
        build_tokenizer(path, facts, folder)
        context = facts.metadata.get(f"{facts.architecture}.context_length")
        # Written last: it says that the folder is complete.
        (folder / "config.json").write_text(json.dumps({"max_position_embeddings": context}))
    return folder


def _json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.is_file() else {}
