"""Progress of a run on stderr, with the time left; nothing but plain lines off a terminal."""

from __future__ import annotations

import click

from specbench.cli.bar import Bar
from specbench.core.trace import Trace
from specbench.experiment.session import Hooks
from specbench.fidelity.watch import Watch
from specbench.measure.estimate import Estimate
from specbench.results.store import RunFolder

LONG_MINUTES = 10.0


def cost_line(cost: Estimate) -> str:
    """Arms, requests, tokens and minutes of a run, and where the minutes come from."""
    return (
        f"{cost.arms} arms, {cost.requests} requests, up to {cost.tokens} tokens, about "
        f"{cost.minutes:.1f} minutes ({cost.basis})"
    )


class RunProgress(Bar):
    """Shows how far a run is, and remembers its folder."""

    def __init__(self, ask: bool) -> None:
        super().__init__()
        self.folder: RunFolder | None = None
        self._ask = ask
        self._watch = Watch()
        self._task = self.bar.add_task("measuring", total=None)

    def hooks(self) -> Hooks:
        """What the run calls."""
        return Hooks(note=self._note, begin=self._begin, advance=self._advance)

    def _note(self, text: str) -> None:
        click.echo(text, err=True)

    def _begin(self, folder: RunFolder, total: int, cost: Estimate) -> None:
        self.folder = folder
        if cost.minutes > LONG_MINUTES:
            self._note(cost_line(cost))
            if self._ask:
                click.confirm("Begin?", default=True, abort=True, err=True)
        self.bar.update(self._task, total=total)
        self.bar.start()

    def _advance(self, trace: Trace) -> None:
        if not trace.ok:
            key = trace.key
            place = f"{key.suite}/{key.item} turn {key.turn + 1}, arm {trace.arm}"
            text = f"{place}: {trace.finish}: {trace.error}"
            self.console.print(text, markup=False, soft_wrap=True)
        found = self._watch.update(trace)
        if found:
            self.console.print(found, markup=False, soft_wrap=True)
        text = f"{trace.key.suite} {trace.arm}, log10 E {self._watch.largest:.1f}"
        self.bar.update(self._task, advance=1, description=text)
