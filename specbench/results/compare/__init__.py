"""Two arms on the same requests: paired differences with intervals, from items.csv alone."""
