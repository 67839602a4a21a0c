"""Measures the native engine against transformers and against its own costs; see scripts/bench.

All ratios come from one run: contenders alternate within each round, and the median over rounds is
taken. Prompts are test prompts of the shipped suites; items whose plain output loops are left out.
"""
