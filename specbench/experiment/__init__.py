"""From an experiment file and flags to a run: the only room that sees measurement and results."""
