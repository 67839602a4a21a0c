import pytest

from specbench.quality.json_answer import judge


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}',
        ' \n{"a": {"b": [1, 2]}, "c": null}\n',
        '```json\n{"a": 1}\n```',
        '```\n{"a": 1}\n```\n',
        '```json\n{"a": 1}',
        '{"a": 1}<|im_end|>',
        '{"a": "{\\"b\\": 1}"}',
        '{"a": 1, "a": 2}',
    ],
)
def test_one_object_and_nothing_else(text):
    found = judge(text, ["a"])
    assert (found.valid, found.surrounded, found.reason) == (True, False, "")


@pytest.mark.parametrize(
    "text",
    [
        'Here you are:\n```json\n{"a": 1}\n```',
        '{"a": 1}\n\nI hope this helps.',
        'For {name} and {x}: {"a": 1}',
    ],
)
def test_text_around_is_tolerated_and_reported(text):
    found = judge(text, ["a"])
    assert (found.valid, found.surrounded) == (True, True)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no JSON object"),
        ("I cannot do that.", "no JSON object"),
        ("{'a': 1}", "no JSON object"),
        ('{"a": 1', "not JSON"),
        ('{"a": NaN}', "NaN is not JSON"),
        ('{"a": -Infinity}', "-Infinity is not JSON"),
        ('{"a": 1,}', "not JSON"),
        ('{"a": 1 // one\n}', "not JSON"),
        ('{"a": "two\nlines"}', "not JSON"),
        ('{"a": ' + "[" * 100_000, "not JSON"),
        ('{"a": ' + "9" * 5000 + "}", "not JSON"),
        ('[{"a": 1}]', "a list, not an object"),
        ('{"a": 1} {"a": 2}', "more than one JSON object"),
        ('{"a": 1}\n```json\n{"a": 2}\n```', "more than one JSON object"),
        ("{}", "without the key a"),
        ('{"A": 1}', "without the key a"),
        ('{"b": {"a": 1}}', "without the key a"),
    ],
)
def test_what_is_not_right(text, reason):
    found = judge(text, ["a"])
    assert not found.valid
    assert reason in found.reason


def test_an_object_inside_a_cut_one_is_not_the_answer():
    assert not judge('{"result": {"a": 1}, "more": [', ["a"]).valid


def test_every_missing_key_is_named():
    assert judge('{"b": 1}', ["a", "b", "c"]).reason == "without the key a, c"
