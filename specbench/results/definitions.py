"""Every metric that a table may hold, with its meaning."""

from __future__ import annotations

from specbench.fidelity import definitions as fidelity
from specbench.metrics import definitions as metrics
from specbench.quality import definitions as quality

DEFINITIONS = metrics.DEFINITIONS | fidelity.DEFINITIONS | quality.DEFINITIONS
"""Name -> definition, in table order."""
