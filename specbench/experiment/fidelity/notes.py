"""What a replay could use, and how far its numbers are from the run's own."""

from __future__ import annotations

from specbench.experiment.reference import Replayed


def replay_notes(replayed: Replayed) -> list[str]:
    """Lines for the reader."""
    same = {
        True: "the run's weights",
        False: "OTHER weights than the run's",
        None: "not known whether these are the run's weights",
    }
    notes = [f"evidence: {len(replayed.traces)} outputs replayed; {same[replayed.same_weights]}"]
    notes += [f"{count} {reason}" for reason, count in replayed.counts().items()]
    for (arm, temperature), found in replayed.agreement.items():
        if found.mean is not None and found.largest is not None:
            text = f"T={temperature:g} {arm}: log-probabilities differ from the run's own by "
            text += f"{found.mean:.2g} on average, {found.largest:.2g} at most"
            if found.kl is not None:
                text += f"; KL {found.kl:.1e} nats per token"
            notes.append(text)
    return notes
