"""Training of drafting heads and draft models, from prompts to a published checkpoint."""
