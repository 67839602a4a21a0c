"""The fidelity report of a run, from its own evidence or from a reference model's."""
