"""The measurement behind a table of docs/fidelity.md: outputs and evidence follow their laws."""

from __future__ import annotations

import json
from dataclasses import fields

import numpy as np
import pytest
from click.testing import CliRunner

from scripts import black_box_power as power
from specbench.core.request import Sampling
from specbench.fidelity.columns import Columns
from specbench.laws.positions import random_positions
from tests.fidelity.table_model import whole

SIZE = power.SIZE


def table(sampling):
    return random_positions(SIZE, SIZE, sampling, 2.0, 0.8, np.random.default_rng(3))


def lenient_law(p, q, lenience):
    """Accept q's draw with min(1, p / (l q)), else draw from relu(p - l q)."""
    kept = np.minimum(q, p / lenience)
    rest = np.maximum(p - lenience * q, 0)
    return kept + (1 - kept.sum()) * rest / rest.sum()


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_outputs_follow_the_law_of_what_is_served(share):
    made, count = table(power.WARM), 4000
    emit = power.speculative(power.LOOSE, share)
    entries = power.outputs(made, emit, count, np.random.default_rng(1))
    assert entries.shape == (count, power.LENGTH)
    # What is emitted is what the next token is drawn behind.
    assert (entries[:, :-1] % SIZE == entries[:, 1:] // SIZE).all()
    seen = np.bincount(entries.ravel(), minlength=SIZE**2).reshape(SIZE, SIZE)
    laws = []
    for logits, q in zip(made.logits.double().numpy(), made.draft.double().numpy(), strict=True):
        p = whole(logits, power.WARM)
        laws.append(share * lenient_law(p, q, 0.8) + (1 - share) * p)
    expected = np.stack(laws) * seen.sum(1, keepdims=True)
    # Chi-square over cells that expect 20 or more, in its normal form.
    used = expected >= 20
    excess = ((seen - expected) ** 2 / expected)[used].sum() - used.sum()
    assert abs(excess) < 5 * np.sqrt(2 * used.sum())


@pytest.mark.parametrize("sampling", [power.WARM, power.NUCLEUS])
def test_whole_rows_and_rows_beside_a_draft_say_the_same_of_the_target(sampling):
    made, generator = table(sampling), np.random.default_rng(2)
    at = np.arange(SIZE**2)
    listed, _ = power.chosen(power.evidence(made, power.WHOLE), at, generator)
    drafted, bounds = power.chosen(power.evidence(made, power.DRAFT), at, generator)
    assert bounds is None
    laws = np.stack([whole(row, sampling) for row in made.logits.double().numpy()]).ravel()
    for found in (listed, drafted):
        assert np.exp(found.log_target) == pytest.approx(laws, abs=1e-6)
        assert (found.outside == (laws == 0)).all()
    same = {f.name for f in fields(Columns)} - {"drafted", "pit_low", "support_margin", "uniform"}
    for name in (n for n in same if "draft" not in n and "lenient" not in n):
        known = np.isfinite(getattr(drafted, name))
        close = pytest.approx(getattr(drafted, name)[known], abs=1e-4)
        assert getattr(listed, name)[known] == close, name


def test_a_search_ends_at_the_first_token_outside_or_at_the_last():
    made, generator = table(Sampling(0.7, top_k=1)), np.random.default_rng(2)
    best = made.logits.argmax(1).numpy()
    inside, outside = 5 * SIZE + best[5], 5 * SIZE + (best[5] + 1) % SIZE
    for kind in (power.LISTED, power.WHOLE, power.DRAFT):
        evidence = power.evidence(made, kind)
        cell = power.chosen(evidence, np.array([inside, inside, outside, inside]), generator)
        assert power.needed(*cell) == 3
        assert power.alarmed(*cell) == 1
        assert power.needed(*power.chosen(evidence, np.array([inside] * 9), generator)) == np.inf


def test_quartiles_that_were_not_reached_are_not_made_up():
    assert power.spread([3.0, 1.0, 5.0, 2.0, 4.0]) == "3 [2, 4]"
    assert power.spread([3.0, 1.0, np.inf, 2.0, np.inf]) == "found in 3 of 5"


def test_the_file_is_strict_json_and_names_its_command(tmp_path, monkeypatch):
    monkeypatch.setattr(power, "TABLES", 1)
    monkeypatch.setattr(power, "DEFECTS", power.DEFECTS[2:3])
    monkeypatch.setattr(power, "RIGHT", power.RIGHT[-1:])
    path = tmp_path / "found.json"
    done = CliRunner().invoke(power.main, ["--each", "3", "--out", str(path)])
    assert done.exit_code == 0, done.output
    found = json.loads(path.read_text("utf-8"))
    assert found["command"].endswith("black_box_power.py --seed 1 --each 3")
    (row,) = found["power"]
    assert list(row) == ["asked", "served", power.LISTED, power.WHOLE]
    # Greedy outputs win the bet on the first choice at most tokens: some dozens are enough.
    assert int(row[power.WHOLE].split()[0]) < 100
    (row,) = found["false_alarms"]
    assert row[power.DRAFT].endswith(" of 3")
