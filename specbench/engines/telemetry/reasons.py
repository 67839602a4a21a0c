"""How the reasons begin for which what counters showed is refused; guards tell them apart."""

OTHER_TRAFFIC = "other traffic"
UNCOUNTED = "requests went uncounted"
RESTARTED = "restarted"
