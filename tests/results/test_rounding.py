"""What is rounding and what is a difference."""

import pytest

from specbench.results.rounding import difference

FORMS = {
    ".csv": 'name\n"{}"\n'.format,
    ".json": '{{"name": [1, "{}"]}}'.format,
    ".md": "name\n{}\n".format,
}
ALIKE = [
    ("0.30783347634548636", "0.3078334763454861"),
    ("itl 20.5 ms [19.25, 21.75]", "itl 20.5 ms [19.25, 21.7500000000001]"),
    ("1e-17", "0.0"),
    ("-2.5e-3", "-0.0025"),
]
OTHER = [
    ("0.3078334763454863", "0.3078335"),
    ("2.5", "-2.5"),
    ("1000000000000", "1000000000001"),
    ("a1.5000000000001", "a1.5"),
    ("12.5000000000001%x", "12.5%"),
    ("1.5", "1.5 "),
    ("passed", "failed"),
    ("", "0.0"),
]


@pytest.mark.parametrize("made", FORMS)
@pytest.mark.parametrize(("there", "derived"), ALIKE)
def test_rounding(there, derived, made):
    there, derived = (FORMS[made](text) for text in (there, derived))
    assert difference(there, derived, made) == ""


@pytest.mark.parametrize("made", FORMS)
@pytest.mark.parametrize(("there", "derived"), OTHER)
def test_differences(there, derived, made):
    there, derived = (FORMS[made](text) for text in (there, derived))
    assert difference(there, derived, made)
    assert difference(derived, there, made)


def test_it_says_where():
    derived = 'arm,itl\nplain,"1.5"\n"a\nb",2.5\n'
    assert difference(derived.replace("2.5", "2.75"), derived, ".csv") == (
        "row 3, itl: 2.75 in the file, 2.5 from the traces"
    )
    assert difference("arm,itl\n", derived, ".csv") == ("1 rows in the file, 3 from the traces")
    assert difference('arm,itl\nplain\n"a\nb",2.5\n', derived, ".csv") == (
        "row 2, itl: nothing in the file, 1.5 from the traces"
    )
    assert difference("one\n  two\n", "one\n  too\n", ".md") == (
        "line 2: two in the file, too from the traces"
    )
    assert difference("one\n\n", "one\n", ".md") == "3 lines in the file, 2 from the traces"
    assert difference("x" * 99, "y", ".md") == (
        f"line 1: {'x' * 59}… in the file, y from the traces"
    )


def test_it_says_where_in_a_document():
    derived = '{"rows": [{"value": 1.5, "n": 3}, {"value": null, "n": 0}], "title": "a"}'
    for old, new, where in (
        ("1.5", "1.25", "rows[0].value: 1.25 in the file, 1.5 from the traces"),
        ("null", "2", "rows[1].value: 2 in the file, null from the traces"),
        ('"a"', '"b"', 'title: "b" in the file, "a" from the traces'),
        ('"n"', '"m"', "rows[0]: "),
        (derived, "[]", "all: [] in the file, "),
        ("{", "", "no JSON: "),
    ):
        found = difference(derived.replace(old, new, 1), derived, ".json")
        assert found.startswith(where)
    assert not difference(derived.replace(": ", ":"), derived, ".json")
