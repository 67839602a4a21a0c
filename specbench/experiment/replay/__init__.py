"""Scoring drafts on the recorded tokens of a run: what is asked, which records, the result."""
