"""From a prompt to token ids: history, system policy, chat template, special tokens."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, Protocol

from specbench.catalog import nearest
from specbench.core.prompt import RenderedPrompt
from specbench.core.suite import Prompt
from specbench.errors import UsageError
from specbench.suites.messages import text_of
from specbench.suites.passed_on import for_template, require_tools, template_options

Message = Mapping[str, object]
SystemPolicy = Literal["merge-into-user", "drop", "fail"]

SYSTEM_POLICIES: tuple[SystemPolicy, ...] = ("merge-into-user", "drop", "fail")
NO_TEMPLATE = "none"


class Tokenizer(Protocol):
    """What rendering needs of a tokenizer; those of transformers fit."""

    @property
    def chat_template(self) -> object:
        """The template's source, a dict of named sources, or None."""
        ...

    def apply_chat_template(
        self,
        conversation: list[dict[str, Any]],
        *,
        tokenize: bool,
        add_generation_prompt: bool,
        **options: Any,
    ) -> object:
        """The rendered text when ``tokenize`` is False.

        ``options``: ``chat_template`` and ``tools``, and whatever the template itself takes.
        """
        ...

    def encode(self, text: str, *, add_special_tokens: bool) -> Sequence[int]:
        """Token ids of a text."""
        ...


def messages_for_turn(prompt: Prompt, turn: int, answers: Sequence[str]) -> list[dict[str, Any]]:
    """The conversation that asks for the answer to ``turn`` (counted from 0).

    Args:
        answers: assistant texts of the earlier turns, without end tokens (the template writes
            those): the arm's own, the plain arm's or ``prompt.recorded``. Later ones are ignored.

    Returns:
        messages with role and content; those of ``prompt.context`` as they were logged.

    Raises:
        ValueError: no such turn, or fewer answers than earlier turns.
    """
    if not 0 <= turn < len(prompt.turns):
        raise ValueError(f"prompt {prompt.id!r} has {len(prompt.turns)} turns, no turn {turn}")
    if len(answers) < turn:
        raise ValueError(f"turn {turn} of {prompt.id!r} needs {turn} answers, got {len(answers)}")
    messages = _first_request(prompt)
    for answer, text in zip(answers, prompt.turns[1 : turn + 1], strict=False):
        messages.append({"role": "assistant", "content": answer})
        messages.append({"role": "user", "content": text})
    return messages


def _first_request(prompt: Prompt) -> list[dict[str, Any]]:
    if prompt.context:
        return [dict(message) for message in prompt.context]
    system = [] if prompt.system is None else [{"role": "system", "content": prompt.system}]
    return [*system, {"role": "user", "content": prompt.turns[0]}]


def apply_system_policy(messages: Sequence[Message], policy: str) -> list[dict[str, Any]]:
    """The conversation without system messages.

    ``merge-into-user`` puts the system text and a blank line before the first user message,
    ``drop`` leaves it out.

    Raises:
        UsageError: policy ``fail`` and a system message is present, or an unknown policy.
    """
    if policy not in SYSTEM_POLICIES:
        raise UsageError(
            f"unknown system policy {policy!r}", nearest(policy, list(SYSTEM_POLICIES))
        )
    system = [text_of(m) for m in messages if m["role"] == "system"]
    rest = [dict(m) for m in messages if m["role"] != "system"]
    if not system or policy == "drop":
        return rest
    if policy == "fail":
        raise UsageError(
            "the chat template takes no system message, and the system policy is 'fail'",
            "use --system-policy merge-into-user or --system-policy drop",
        )
    first = next((m for m in rest if m["role"] == "user"), None)
    if first is None:
        raise UsageError("a system message, but no user message to merge it into")
    first["content"] = "\n\n".join([*system, text_of(first)])
    return rest


def render(
    tokenizer: Tokenizer,
    messages: Sequence[Message],
    *,
    template: str | Path | None = None,
    system_policy: str = "merge-into-user",
    passed_on: Mapping[str, object] | None = None,
) -> RenderedPrompt:
    """Apply the chat template and tokenise.

    Text that a template rendered is tokenised without adding special tokens, because the template
    wrote them; raw text gets exactly the tokenizer's own. The conversation is first tried as it
    is; if the template refuses the system message, or leaves its text out without a word, the
    policy is applied and recorded. An empty prompt gives no ids and no error.

    Args:
        template: None = the tokenizer's own; ``none`` = no template, message texts joined by
            blank lines; else a template file, or its source.
        system_policy: ``merge-into-user``, ``drop`` or ``fail``.
        passed_on: fields of the request, ``Prompt.passed_on``; its ``tools`` and
            ``chat_template_kwargs`` go to the template, as a server does it.

    Raises:
        UsageError: no chat template, no such template file, a template that fails, a refused
            system message under policy ``fail``, or tools that the template leaves out.
    """
    if system_policy not in SYSTEM_POLICIES:
        apply_system_policy((), system_policy)
    options = template_options(passed_on or {})
    if template == NO_TEMPLATE:
        if "tools" in options:
            raise UsageError(
                "tools need a chat template, and the template is 'none'",
                "leave --template out, or leave tools out of the suite",
            )
        text = "\n\n".join(text_of(m) for m in messages)
        return _rendered(tokenizer.encode(text, add_special_tokens=True), text, NO_TEMPLATE, "")
    source = None if template is None else _template_source(template)
    digest = _template_digest(tokenizer.chat_template if source is None else source)
    # An own template goes by default: not every tokenizer takes one as an argument.
    if source is not None:
        options["chat_template"] = source
    text, applied = _with_policy(tokenizer, for_template(messages), options, system_policy)
    require_tools(options.get("tools", ()), text)
    return _rendered(tokenizer.encode(text, add_special_tokens=False), text, digest, applied)


class TemplateFailed(UsageError):
    """A chat template that raised on a conversation."""


def _with_policy(
    tokenizer: Tokenizer, messages: Sequence[Message], options: Mapping[str, Any], policy: str
) -> tuple[str, str]:
    """The rendered text, and the system policy that was applied (empty if none was needed)."""
    try:
        text = _apply(tokenizer, messages, options)
        if not _system_lost(messages, text):
            return text, ""
    except TemplateFailed:
        if not any(m["role"] == "system" for m in messages):
            raise
    return _apply(tokenizer, apply_system_policy(messages, policy), options), policy


def _apply(tokenizer: Tokenizer, messages: Sequence[Message], options: Mapping[str, Any]) -> str:
    conversation = [dict(m) for m in messages]
    try:
        text = tokenizer.apply_chat_template(
            conversation, tokenize=False, add_generation_prompt=True, **options
        )
    except _template_errors() as error:
        roles = ", ".join(str(m["role"]) for m in messages)
        raise TemplateFailed(
            f"the chat template raised on a conversation of {roles}: {error}",
            "give another template with --template FILE, or --template none",
        ) from error
    if not isinstance(text, str):
        raise TypeError(f"apply_chat_template(tokenize=False) gave {type(text).__name__}, not str")
    return text


def _template_errors() -> tuple[type[Exception], ...]:
    # jinja2 comes with the tokenizers that use it; without it a template can only raise ValueError.
    try:
        from jinja2.exceptions import TemplateError
    except ImportError:
        return (ValueError,)
    return (ValueError, TemplateError)


def _system_lost(messages: Sequence[Message], text: str) -> bool:
    # Templates may trim the text of a message, so compare without the white space around it.
    return any(m["role"] == "system" and text_of(m).strip() not in text for m in messages)


def _template_source(template: str | Path) -> str:
    if isinstance(template, str) and ("{{" in template or "{%" in template):
        return template
    path = Path(template)
    if not path.is_file():
        raise UsageError(
            f"no template file {str(template)!r}",
            "give a file with a Jinja template, the template itself, or 'none'",
        )
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: byte {error.start} is not UTF-8", "save it as UTF-8") from error


def _template_digest(source: object) -> str:
    if not source:
        raise UsageError(
            "the tokenizer has no chat template",
            "use --template none for raw text, or --template FILE",
        )
    text = source if isinstance(source, str) else json.dumps(source, sort_keys=True)
    return f"sha256:{sha256(text.encode()).hexdigest()}"


def _rendered(ids: Sequence[int], text: str, template: str, policy: str) -> RenderedPrompt:
    digest = sha256(text.encode()).hexdigest()
    return RenderedPrompt(tuple(ids), text, digest, template, policy)
