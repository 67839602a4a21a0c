"""Simulated experiments of the real shape, and what the package's statistics keep on them.

``python -m scripts.simulations`` writes results/coverage.json. See docs/comparing.md and
docs/ci.md.
"""
