"""The loop: batches, optimiser, schedule, checkpoints, curves."""
