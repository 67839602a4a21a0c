"""All runs of a folder, ranked where they measured the same; from result files alone."""
