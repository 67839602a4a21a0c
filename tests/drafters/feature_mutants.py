"""Drafters whose refill is off: the output stays right, and only acceptance would show it."""

from __future__ import annotations

from dataclasses import replace

from specbench.drafters.features.drafter import FeatureDrafter


class PredictedFeatures(FeatureDrafter):
    """Keeps the slots of accepted drafts as they were while drafting."""

    def _refill(self, new, taps):
        super()._refill(
            [
                replace(
                    one,
                    start=one.start + len(one.tokens) - 1,
                    tokens=one.tokens[-1:],
                    tapped=one.tapped[-1:],
                )
                if one.start
                else one
                for one in new
            ],
            taps,
        )


class WrongPosition(FeatureDrafter):
    """Places a refilled slot where its token is, not where its hidden state is."""

    def _refill(self, new, taps):
        super()._refill([replace(one, start=one.start + bool(one.start)) for one in new], taps)


class StaleHidden(FeatureDrafter):
    """Goes on drafting from the hidden state of the prompt's last slot."""

    def _refill(self, new, taps):
        before = dict(self._carried)
        super()._refill(new, taps)
        for slab, old in before.items():
            if slab in self._carried:
                self._carried[slab] = replace(self._carried[slab], hidden=old.hidden)


class ShiftedFeatures(FeatureDrafter):
    """Pairs a refilled slot with the hidden state after its own."""

    def _refill(self, new, taps):
        shifted = [
            replace(one, tapped=[*one.tapped[1:], one.tapped[-1]]) if one.start else one
            for one in new
        ]
        super()._refill(shifted, taps)


class StaleLogits(FeatureDrafter):
    """Carries the hidden state of the last slot and the logits of the one before."""

    def _refill(self, new, taps):
        before = dict(self._carried)
        super()._refill(new, taps)
        for slab, old in before.items():
            if slab in self._carried:
                self._carried[slab] = replace(self._carried[slab], logits=old.logits)


OFF = [PredictedFeatures, WrongPosition, StaleHidden, ShiftedFeatures, StaleLogits]
