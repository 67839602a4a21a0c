"""History, system policies, templates and special tokens."""

from __future__ import annotations

import pytest

from specbench.core.suite import Prompt
from specbench.engines import protocol
from specbench.errors import UsageError
from specbench.suites.templates import (
    RenderedPrompt,
    apply_system_policy,
    messages_for_turn,
    render,
)

CHAT = (
    "{{ bos_token }}{% for m in messages %}{{ m.role[0] }}:{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}a:{% endif %}"
)
NO_SYSTEM = (
    "{% for m in messages %}{% if m.role == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}[{{ m.content }}]{% endfor %}"
)
SILENT = "{% for m in messages %}{% if m.role == 'user' %}[{{ m.content }}]{% endif %}{% endfor %}"
SU = [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]
U = [{"role": "user", "content": "U"}]


def test_the_engine_protocol_shows_the_same_class():
    assert protocol.RenderedPrompt is RenderedPrompt


# E6


def test_e6_a_template_that_writes_bos_gets_no_second_one(tokenizer):
    rendered = render(tokenizer("{{ bos_token }}{{ messages[0].content }}"), U)
    assert rendered.text == "<s>U"
    assert rendered.token_ids == (1, 185)  # 100 + ord("U")


def test_e6_a_template_without_bos_gets_none(tokenizer):
    rendered = render(tokenizer("{{ messages[0].content }}"), U)
    assert rendered.token_ids == (185,)
    # printf U | sha256sum, and the same of the template
    assert rendered.digest.startswith("a25513c7e0f6eaa8")
    assert rendered.template.startswith("sha256:21b1d9c74a217211")


def test_e6_raw_text_gets_the_tokenizers_own(tokenizer):
    assert render(tokenizer(), U, template="none").token_ids == (1, 185)
    assert render(tokenizer(bos=False), U, template="none").token_ids == (185,)
    # a chat template is not looked at
    raw = render(tokenizer(CHAT), SU, template="none")
    assert (raw.text, raw.template, raw.policy) == ("S\n\nU", "none", "")


# F1


def test_f1_an_empty_prompt_is_zero_ids_and_no_error(tokenizer):
    empty = [{"role": "user", "content": ""}]
    assert render(tokenizer(bos=False), empty, template="none").token_ids == ()
    assert render(tokenizer(bos=True), empty, template="none").token_ids == (1,)


# F3


@pytest.mark.parametrize("template", [NO_SYSTEM, SILENT])
@pytest.mark.parametrize(("policy", "text"), [("merge-into-user", "[S\n\nU]"), ("drop", "[U]")])
def test_f3_a_refused_system_message_follows_the_policy(tokenizer, template, policy, text):
    rendered = render(tokenizer(template), SU, system_policy=policy)
    assert (rendered.text, rendered.policy) == (text, policy)


@pytest.mark.parametrize("template", [NO_SYSTEM, SILENT])
def test_f3_policy_fail(tokenizer, template):
    with pytest.raises(UsageError, match="'fail'"):
        render(tokenizer(template), SU, system_policy="fail")


@pytest.mark.parametrize("policy", ["merge-into-user", "drop", "fail"])
def test_f3_no_policy_where_the_template_takes_system(tokenizer, policy):
    rendered = render(tokenizer(CHAT), SU, system_policy=policy)
    assert rendered.text == "<s>s:S<|end|>u:U<|end|>a:"
    assert rendered.policy == ""
    assert render(tokenizer(NO_SYSTEM), U, system_policy=policy).policy == ""


def test_f3_no_template_names_the_flag(tokenizer):
    with pytest.raises(UsageError, match="--template none"):
        render(tokenizer(), U)


def test_f3_a_template_that_raises_on_roles_is_an_error_of_the_item(tokenizer):
    broken = tokenizer("{{ raise_exception('roles must alternate') }}")
    for messages in (U, SU):
        with pytest.raises(UsageError, match="roles must alternate"):
            render(broken, messages)


def test_an_unknown_policy_is_refused_even_if_not_needed(tokenizer):
    with pytest.raises(UsageError, match="did you mean drop"):
        render(tokenizer(CHAT), U, system_policy="drp")


def test_apply_system_policy():
    assert apply_system_policy(SU, "merge-into-user") == [{"role": "user", "content": "S\n\nU"}]
    assert apply_system_policy(SU, "drop") == U
    assert apply_system_policy(U, "fail") == U
    assert SU[1]["content"] == "U"  # the argument is left as it was
    with pytest.raises(UsageError, match="no user message"):
        apply_system_policy(SU[:1], "merge-into-user")


# F4


TWO_TURNS = Prompt(
    id="a", category="x", split="dev", turns=("U1", "U2"), system="S", recorded=("R1", "R2")
)


def test_f4_turn_two_holds_the_answer_and_its_end_token_once(tokenizer):
    messages = messages_for_turn(TWO_TURNS, 1, ["A1"])
    assert messages == [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "U1"},
        {"role": "assistant", "content": "A1"},
        {"role": "user", "content": "U2"},
    ]
    rendered = render(tokenizer(CHAT), messages)
    assert rendered.text == "<s>s:S<|end|>u:U1<|end|>a:A1<|end|>u:U2<|end|>a:"
    assert rendered.token_ids.count(2) == 4  # one per finished message
    assert rendered.token_ids.count(1) == 1


def test_f4_the_first_turn_needs_no_answer_and_recorded_ones_may_be_longer():
    assert [m["content"] for m in messages_for_turn(TWO_TURNS, 0, [])] == ["S", "U1"]
    fixed = messages_for_turn(TWO_TURNS, 1, TWO_TURNS.recorded)
    assert [m["content"] for m in fixed] == ["S", "U1", "R1", "U2"]


def test_f4_an_answer_or_a_turn_that_does_not_exist():
    with pytest.raises(ValueError, match="needs 1 answers, got 0"):
        messages_for_turn(TWO_TURNS, 1, [])
    with pytest.raises(ValueError, match="no turn 2"):
        messages_for_turn(TWO_TURNS, 2, ["A1", "A2"])


# other templates


def test_a_template_from_a_file_or_as_source(tokenizer, tmp_path):
    path = tmp_path / "t.jinja"
    path.write_bytes(b"\xef\xbb\xbf<{{ messages[0].content }}\xc3\xa9>")
    expected = ("<Ué>", render(tokenizer(CHAT), U, template="<{{ messages[0].content }}é>").digest)
    for template in (path, str(path)):
        rendered = render(tokenizer(CHAT), U, template=template)
        assert (rendered.text, rendered.digest) == expected


def test_a_template_file_that_is_none(tokenizer, tmp_path):
    with pytest.raises(UsageError, match="no template file"):
        render(tokenizer(CHAT), U, template=str(tmp_path / "t.jinja"))
    (tmp_path / "t.jinja").write_bytes(b"ab\xe9")
    with pytest.raises(UsageError, match="byte 2 is not UTF-8"):
        render(tokenizer(CHAT), U, template=tmp_path / "t.jinja")
