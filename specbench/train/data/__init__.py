"""What a head is trained on: prompts, the target's own answers to them, and what is left out."""
