"""Request fields in the local chat template, as servers render them."""

from __future__ import annotations

import pytest

from specbench.errors import UsageError
from specbench.suites.templates import render

TEMPLATE = (
    "{% if tools %}{% for t in tools %}<{{ t.function.name }}>{% endfor %}{% endif %}"
    "{% for m in messages %}{{ m.role }}:{{ m.content or '' }}"
    "{% for c in m.tool_calls or [] %}[{{ c.function.arguments.t }}]{% endfor %};{% endfor %}"
    "{% if think is defined %}{{ 'T' if think else 'F' }}{% endif %}"
)
TOOLS = [{"type": "function", "function": {"name": "weather"}}]
U = [{"role": "user", "content": "U"}]


def text(tokenizer, messages=U, **passed_on):
    return render(tokenizer(TEMPLATE), messages, passed_on=passed_on).text


def test_tools_and_template_arguments_reach_the_template(tokenizer):
    assert text(tokenizer) == "user:U;"
    assert text(tokenizer, tools=TOOLS) == "<weather>user:U;"
    assert text(tokenizer, chat_template_kwargs={"think": False}) == "user:U;F"
    # what is none of the template's business changes nothing
    assert text(tokenizer, response_format={"type": "json_object"}) == "user:U;"


def test_they_change_the_hash_of_the_prompt(tokenizer):
    plain = render(tokenizer(TEMPLATE), U)
    tools = render(tokenizer(TEMPLATE), U, passed_on={"tools": TOOLS})
    assert plain.digest != tools.digest
    assert plain.template == tools.template


def test_arguments_of_calls_are_objects_for_a_template(tokenizer):
    function = {"name": "weather", "arguments": '{"t": 7}'}
    call = {"role": "assistant", "content": None, "tool_calls": [{"function": function}]}
    result = {"role": "tool", "content": "rain"}
    assert text(tokenizer, [*U, call, result]) == "user:U;assistant:[7];tool:rain;"
    assert function["arguments"] == '{"t": 7}'  # the message is left as it was
    broken = {**call, "tool_calls": [{"function": {"name": "weather", "arguments": "{"}}]}
    assert text(tokenizer, [*U, broken, result]) == "user:U;assistant:[];tool:rain;"


def test_a_developer_is_a_system_message_for_a_template(tokenizer):
    assert text(tokenizer, [{"role": "developer", "content": "D"}, *U]) == "system:D;user:U;"


def test_tools_that_get_lost_are_refused(tokenizer):
    silent = tokenizer("{{ messages[0].content }}")
    with pytest.raises(UsageError, match="leaves out the tool 'weather'"):
        render(silent, U, passed_on={"tools": TOOLS})
    with pytest.raises(UsageError, match="tools need a chat template"):
        render(silent, U, template="none", passed_on={"tools": TOOLS})


@pytest.mark.parametrize("name", ["tools", "chat_template", "tokenize"])
def test_arguments_that_a_suite_may_not_set(tokenizer, name):
    with pytest.raises(UsageError, match=f"chat_template_kwargs sets {name}"):
        text(tokenizer, chat_template_kwargs={name: True})


def test_a_message_without_text_renders_without_a_template(tokenizer):
    messages = [*U, {"role": "assistant", "content": None}]
    assert render(tokenizer(), messages, template="none").text == "U\n\n"
