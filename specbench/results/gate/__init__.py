"""Has it become worse? A run, or an arm, against a baseline, with an exit code."""
