"""Hidden states of the target along its own answers, written once and read at every epoch."""
