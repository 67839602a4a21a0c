"""Request fields that change the rendered prompt, and messages as chat templates expect them.

A server does the same before it renders, so that the prompt is the same where it is rendered here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from specbench.errors import UsageError

OURS = ("conversation", "tokenize", "add_generation_prompt", "chat_template", "tools")
"""Arguments of ``apply_chat_template`` that ``chat_template_kwargs`` may not set."""


def template_options(passed_on: Mapping[str, object]) -> dict[str, Any]:
    """``chat_template_kwargs`` and ``tools`` of a request as arguments of the chat template.

    Raises:
        UsageError: no object, or an argument that every request sets by itself.
    """
    given = passed_on.get("chat_template_kwargs") or {}
    if not isinstance(given, Mapping):
        raise UsageError(f"chat_template_kwargs: {given!r:.80} is not an object")
    wrong = sorted(set(given) & set(OURS))
    if wrong:
        raise UsageError(
            f"chat_template_kwargs sets {', '.join(wrong)}, which every request sets by itself",
            "leave it out; --template FILE gives another template",
        )
    options = {str(key): value for key, value in given.items()}
    if tools := passed_on.get("tools"):
        options["tools"] = tools
    return options


def for_template(messages: Sequence[Mapping[str, object]]) -> list[dict[str, Any]]:
    """Messages as templates expect them, changed in the way that servers change them."""
    return [
        dict(message)
        | ({"role": "system"} if message["role"] == "developer" else {})
        | ({"tool_calls": _decoded(message["tool_calls"])} if message.get("tool_calls") else {})
        for message in messages
    ]


def _decoded(calls: object) -> object:
    return [_decoded_call(call) for call in calls] if isinstance(calls, list) else calls


def _decoded_call(call: object) -> object:
    # A request holds the arguments of a call as JSON text; templates write them as JSON again.
    function = call.get("function") if isinstance(call, dict) else None
    arguments = function.get("arguments") if isinstance(function, dict) else None
    if not (isinstance(call, dict) and isinstance(function, dict) and isinstance(arguments, str)):
        return call
    try:
        return {**call, "function": {**function, "arguments": json.loads(arguments)}}
    except ValueError:
        return call


def require_tools(tools: Sequence[Any], text: str) -> None:
    """Check that the rendered text names every tool.

    Raises:
        UsageError: a tool is left out; templates that know no tools do so without a word.
    """
    for tool in tools:
        function = tool.get("function", tool) if isinstance(tool, Mapping) else {}
        name = function.get("name") if isinstance(function, Mapping) else None
        if isinstance(name, str) and name not in text:
            raise UsageError(
                f"the chat template leaves out the tool {name!r}",
                "give a template that knows tools with --template FILE, or leave them out",
            )
