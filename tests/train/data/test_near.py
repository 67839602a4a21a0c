"""Near duplicates: shares that are counted by hand."""

import unicodedata

import pytest

from specbench.train.data.near import NearDuplicates, shingles, words


def numbered(*spans):
    """A text of distinct words: (0, 3) is "w0 w1 w2"."""
    return " ".join(f"w{i}" for span in spans for i in range(*span))


TEXT = numbered((0, 30))  # 26 shingles


def near(text, *others):
    return NearDuplicates([("one", text), *enumerate(others)])


def test_words_ignore_case_spaces_punctuation_and_form():
    assert words("  Don't STOP,\nnow! ") == ["don", "t", "stop", "now"]
    assert words("snake_case") == ["snake", "case"]
    assert words(unicodedata.normalize("NFD", "Größe")) == words("GRÖSSE") == ["grösse"]
    assert words("…!?") == []


def test_scripts_without_spaces_have_a_word_per_character():
    assert words("你好。world こん") == ["你", "好", "world", "こ", "ん"]
    assert words("ก็ดี 1") == ["ก", "็", "ด", "ี", "1"]
    assert words("안녕 세상") == ["안녕", "세상"]


def test_shingles_are_runs_of_five_words():
    assert shingles(words("a b c d e f")) == [tuple("abcde"), tuple("bcdef")]
    assert shingles(words("a a a a a a")) == [tuple("aaaaa")]
    assert shingles(words("a b c d")) == []


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        TEXT.upper().replace(" ", "  \n"),
        TEXT.replace(" ", ", ") + "!",
        # 5 words in the middle are others: 30 - 4 - 9 shingles of 26 are left
        numbered((0, 12), (100, 105), (17, 30)),
        # a longer text that holds it, and a part of it
        f"Please help me with this. {TEXT} Thank you very much.",
        numbered((0, 10)),
        # 14 words: 10 of 26 shingles are too few; with 15 words 11 are 42 %
        numbered((0, 15), (100, 140)),
    ],
    ids=["same", "case", "punctuation", "a sentence", "longer", "part", "42 %"],
)
def test_near_duplicates(text):
    assert near(TEXT).of(text) == "one"


@pytest.mark.parametrize(
    "text",
    ["", "…", numbered((100, 130)), numbered((0, 14), (100, 140)), numbered((0, 4), (100, 140))],
    ids=["empty", "no words", "unrelated", "38 %", "no whole shingle"],
)
def test_other_texts(text):
    assert near(TEXT).of(text) is None


SHARED = numbered((0, 12))  # 8 shingles
TASKS = [f"{SHARED} {numbered((first, first + 12))}" for first in range(100, 400, 100)]


def test_an_instruction_that_many_share_makes_nobody_near():
    """Two of these share 8 of 20 shingles, which is 40 %; in three texts they count a third."""
    fresh = f"{SHARED} {numbered((900, 912))}"
    assert near(TASKS[0]).of(fresh) == "one"
    assert near(*TASKS).of(fresh) is None
    assert near(*TASKS).of(TASKS[2]) == 1


def test_what_many_share_still_makes_near_whoever_has_nothing_else():
    assert near(*TASKS, SHARED).of(SHARED) is not None
    copies = [f"{TEXT} {i}" for i in range(5)]
    assert near(*copies).of(f"{TEXT} and what else?") == "one"


SEVEN = "why do people still buy vinyl records"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Why do people still buy vinyl RECORDS?", "one"),
        ("why do people still buy old records", "one"),  # 6 of 7 words
        ("why do some people still buy vinyl records", "one"),  # 7 of 8 words
        ("why do so many people still buy vinyl records", None),  # 7 of 9 words, 1 of 3 shingles
        ("records vinyl buy still people do why", "one"),  # the same words
        ("why do people still buy and read books", None),  # 1 of 3 shingles
        ("why do people never buy old records", None),  # 5 of 7 words
        ("why do people buy vinyl", None),  # 5 of 7 words, no shingle
        ("why", None),
    ],
)
def test_short_texts(text, found):
    assert near(SEVEN).of(text) == found


def test_texts_below_five_words_need_the_same_words():
    assert near("and a dog?").of("And a dog") == "one"
    assert near("and a dog?").of("and a cat?") is None
    assert near("and a dog?").of("and a dog? and what about the cat of my neighbour") is None


CHINESE = "租赁期满后，承租人应当在三日内将房屋交还出租人，并结清水、电、燃气等费用。"


def test_chinese_is_compared_by_characters():
    assert near(CHINESE).of(CHINESE.replace("，", "").replace("三", "五")) == "one"
    assert near(CHINESE).of("请把下面的文字翻译成英文：\n\n" + CHINESE) == "one"
    assert (
        near(CHINESE).of("这款净水器采用三级过滤，可以去除泥沙和铁锈，建议每三个月更换一次。")
        is None
    )


def test_names_of_equal_and_of_empty_texts():
    assert NearDuplicates([("a", "x y"), ("b", "X y!"), ("c", "")]).of("x y") == "a"
    assert NearDuplicates([]).of(TEXT) is None
