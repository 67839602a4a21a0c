"""specbench: measure speculative decoding, and whether it works."""
