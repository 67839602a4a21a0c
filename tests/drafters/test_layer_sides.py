"""Which side of an EAGLE-3 file's layer numbers is meant, where an arm says it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specbench.decoding.protocols import Tap
from specbench.drafters import build as drafters_build
from specbench.drafters.eagle.eagle1 import Eagle1Drafter
from specbench.drafters.eagle.eagle3 import Eagle3Drafter
from specbench.errors import PrerequisiteError, UsageError
from specbench.models.heads.configs import HeadCheckpoint
from specbench.models.heads.layouts.taps import convention, places_of
from tests.drafters.build_contexts import context_of
from tests.models.heads import fixtures as made
from tests.models.heads.reading import read
from tests.models.heads.tiny_heads import (
    VOCABULARY,
    eagle_config,
    eagle_shapes,
    random_tensors,
    tiny_model,
)

LAYERS = 8


def checkpoint(*ids: int) -> HeadCheckpoint:
    """A head as it is read from a SpecForge file that names these layers."""
    config = eagle_config(3)
    if ids:
        side, _ = convention(ids, speculators=False)
        config = replace(config, taps=tuple(Tap(*p) for p in places_of(ids, side, LAYERS)))
    tensors = random_tensors(eagle_shapes(config))
    return HeadCheckpoint("eagle3", "specforge", config, tensors, "head", layer_ids=ids)


def built(monkeypatch, head, side, drafter=Eagle3Drafter):
    """Taps of the drafter, and what is recorded of its head."""
    monkeypatch.setattr(drafters_build, "locate", lambda name, revision=None: name)
    monkeypatch.setattr(drafters_build, "read_head", lambda location, **given: head)
    context = context_of(tiny_model("llama"))
    context.vocabulary = VOCABULARY
    drafter = drafter.build({"model": "some/head", "tree": "chain", "layers": side}, context)
    return drafter.taps, context.loaded[0].facts


@pytest.mark.parametrize(
    ("ids", "side", "taps"),
    [
        ((1, 3, 4), "entering", (Tap(1, "entering"), Tap(3, "entering"), Tap(4, "entering"))),
        ((2, 4, 5), "leaving", (Tap(2, "leaving"), Tap(4, "leaving"), Tap(5, "leaving"))),
    ],
)
def test_the_other_side_is_taken_and_recorded(monkeypatch, ids, side, taps):
    found, facts = built(monkeypatch, checkpoint(*ids), side)
    assert found == taps
    assert facts["head"]["taps"] == [f"{tap.side} {tap.layer}" for tap in taps]
    (told,) = facts["oddities"]
    assert told.startswith(f"layers = {side!r} by the arm, the checkpoint is read with")


def test_the_side_that_was_read_changes_nothing(monkeypatch):
    head = checkpoint(1, 3, 4)
    found, facts = built(monkeypatch, head, "leaving")
    assert found == head.config.taps
    assert facts["oddities"] == []


def test_a_layer_that_the_target_does_not_have(monkeypatch):
    head = checkpoint(2, 4, 8)
    with pytest.raises(PrerequisiteError, match="leaving layer 8") as caught:
        built(monkeypatch, head, "leaving")
    assert "leave layers out" in caught.value.hint
    assert "entering 2, entering 4, leaving 7" in caught.value.hint


def from_file(folder, ids, **options):
    """Taps of an arm that reads a SpecForge file, and what it notes of their side."""
    made.eagle3_specforge(folder, ids)
    context = context_of(tiny_model("llama", vocab_size=made.VOCABULARY, hidden_size=made.HIDDEN))
    context.vocabulary = made.VOCABULARY
    drafter = Eagle3Drafter.build({"model": str(folder), "tree": "chain", **options}, context)
    oddities = context.loaded[0].facts["oddities"]
    return drafter.taps, [note for note in oddities if "layers" in note]


@pytest.mark.parametrize("options", [{}, {"layers": "entering"}])
def test_a_file_that_fits_one_side_alone_is_read_so(tmp_path, options):
    """A first number of 1 means leaving, but nothing leaves layer 8 of 0 to 7."""
    taps, (note,) = from_file(tmp_path, [1, 4, 8], **options)
    # what enters layer 8 of 8 is what leaves layer 7
    assert taps == (Tap(1, "entering"), Tap(4, "entering"), Tap(7, "leaving"))
    assert "taken as entering them because the target's last layer is 7" in note


def test_the_side_that_cannot_be_is_refused_with_a_way_out(tmp_path):
    with pytest.raises(PrerequisiteError, match="leaving layer 8") as caught:
        from_file(tmp_path, [1, 4, 8], layers="leaving")
    assert "leave layers out" in caught.value.hint


def test_a_file_that_fits_both_sides_goes_by_its_first_number(tmp_path):
    taps, (note,) = from_file(tmp_path, [1, 4, 7])
    assert taps == (Tap(1, "leaving"), Tap(4, "leaving"), Tap(7, "leaving"))
    assert "because the first is 1" in note


def test_numbers_that_fit_no_side(tmp_path):
    with pytest.raises(PrerequisiteError, match="leaving layer 9"):
        from_file(tmp_path, [1, 4, 9])


def test_a_file_that_names_no_layers(monkeypatch):
    with pytest.raises(UsageError, match="names no layers of the target"):
        built(monkeypatch, checkpoint(), "leaving")


def test_values_and_drafters_that_do_not_take_it(monkeypatch):
    with pytest.raises(UsageError, match="layers='middle'"):
        built(monkeypatch, checkpoint(1, 3, 4), "middle")
    assert "layers" in Eagle3Drafter.info.options
    assert "layers" not in Eagle1Drafter.info.options


def test_numbers_are_kept_as_the_file_names_them(tmp_path):
    made.eagle3_specforge(tmp_path / "specforge", [1, 3, 4])
    made.eagle3_speculators(tmp_path / "speculators", [2, 4, 8])
    made.eagle3(tmp_path / "official")
    assert read(tmp_path / "specforge").layer_ids == (1, 3, 4)
    assert read(tmp_path / "speculators").layer_ids == (2, 4, 8)
    assert read(tmp_path / "official").layer_ids == ()
