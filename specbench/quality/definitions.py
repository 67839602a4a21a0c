"""What every quality metric means: the text in table headers and in docs/metrics.md.

Stats of each: ``value`` and ``plain`` over the requests that both arms answered, ``difference``,
``p`` (two-sided, of that difference), ``paired`` and ``dropped`` (numbers of answers).
"""

from __future__ import annotations

from specbench.core.definition import Definition

CHRF, BLEU = "quality_chrf", "quality_bleu"
CODE, JSON = "quality_code", "quality_json"

_TABLE = (
    Definition(
        CHRF,
        "corpus chrF2 (sacrebleu) of translations against their references, 0 to 100: one corpus "
        "per target language, languages weighted by their number of answers",
        "points",
    ),
    Definition(
        BLEU,
        "corpus BLEU (sacrebleu, tokenised for the target language) of translations against their "
        "references, 0 to 100: one corpus per target language, languages weighted by their number "
        "of answers",
        "points",
    ),
    Definition(
        CODE,
        "share of answers whose code defines the function asked for and passes the tests of the "
        "prompt, run in a sandbox",
        "1",
    ),
    Definition(
        JSON,
        "share of answers that hold exactly one JSON object (RFC 8259, no NaN) with all keys asked "
        "for; text around it is tolerated",
        "1",
    ),
)

DEFINITIONS = {definition.name: definition for definition in _TABLE}
"""Every metric that ``measure`` returns, in table order."""
