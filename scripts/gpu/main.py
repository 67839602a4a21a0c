"""``scripts/gpu_check``: tests and figures that only a GPU can give, within a time that is kept.

Every part has a share of the time; one that takes longer is broken off with what it has. The
result is written after every part, so that what was measured stays.
"""

from __future__ import annotations

import faulthandler
import json
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import torch

from specbench.models.device import device_name

from .figures import Report
from .forwards import compiled, forwards, rates
from .kernels import attention, built, start_building
from .overlap import overlap
from .sizes import SIZES
from .speculation import speculation
from .stage import Stage

ROOT = Path(__file__).resolve().parents[2]
MINUTES = 8
Part = Callable[[Stage, Report], None]
PARTS: dict[str, tuple[Part, int]] = {
    "rates": (rates, 30),
    "forwards": (forwards, 90),
    "speculation": (speculation, 75),
    "overlap": (overlap, 60),
}
"""Name -> what it does, and the most seconds it may take."""
LATE: dict[str, tuple[Part, int]] = {"attention": (attention, 75), "compiled": (compiled, 90)}
"""After FlashInfer's modules are built; compiling comes last, as it changes the model."""


class OutOfTimeError(Exception):
    """A part took longer than its share."""


@click.command()
@click.option("--device", default="cuda", show_default=True)
@click.option("--size", type=click.Choice(list(SIZES)), default="full", show_default=True)
@click.option("--minutes", type=float, default=MINUTES, show_default=True, help="For all of it.")
@click.option(
    "--json",
    "path",
    type=click.Path(path_type=Path),
    default=ROOT / "results" / "gpu.json",
    help="Where the figures go.  [default: results/gpu.json]",
)
@click.option("--no-tests", is_flag=True, help="Figures alone.")
def main(device: str, size: str, minutes: float, path: Path, no_tests: bool) -> None:
    """Run the tests marked gpu, then measure, and say which aims were met."""
    on = torch.device(device)
    if on.type == "cuda" and not torch.cuda.is_available():
        raise click.UsageError("no CUDA device; --device cpu --size tiny tries the script itself")
    # Whatever hangs, the whole ends.
    assert sys.__stderr__ is not None
    faulthandler.dump_traceback_later(minutes * 60 + 20, exit=True, file=sys.__stderr__)
    try:
        seconds = measure(Stage(SIZES[size](), on), minutes, path, with_tests=not no_tests)
    finally:
        faulthandler.cancel_dump_traceback_later()
    click.echo(f"{seconds:.0f} s, written to {path}")


def measure(stage: Stage, minutes: float, path: Path, *, with_tests: bool) -> float:
    """Run all parts and write what they find after each; returns the seconds it took."""
    begun, on = time.monotonic(), stage.device
    found: dict[str, Any] = {"environment": environment(on), "sizes": stage.sizes.name, "parts": {}}

    def run(name: str, part: Part, seconds: float) -> None:
        left = minutes * 60 - (time.monotonic() - begun)
        found["parts"][name] = timed(part, stage, min(seconds, left))
        path.write_text(json.dumps(found, indent=1, allow_nan=False) + "\n")
        tell(name, found["parts"][name])

    building = start_building(on)
    for name, (part, seconds) in PARTS.items():
        run(name, part, seconds)
    usable = []
    run("flashinfer", lambda _, report: usable.append(built(building, begun, report)), 200)
    for name, (part, seconds) in LATE.items():
        if name == "attention" and not any(usable):
            continue
        run(name, part, seconds)
    if with_tests:
        run("tests", tests, 120)
    return time.monotonic() - begun


def timed(part: Part, stage: Stage, seconds: float) -> dict[str, Any]:
    """A part's report, with what went wrong in it and how long it took."""
    report, start = Report(), time.monotonic()
    if seconds < 1:
        report.skipped["all of it"] = "no time was left"
        return report.record() | {"seconds": 0.0}

    def stop(*_: object) -> None:
        raise OutOfTimeError(f"broken off after {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        part(stage, report)
    except Exception as error:  # whatever it is, the other parts are measured all the same
        first_line = (str(error).strip() or "no message").splitlines()[0]
        report.skipped["the rest"] = f"{type(error).__name__}: {first_line}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    if stage.device.type == "cuda":
        torch.cuda.empty_cache()
    return report.record() | {"seconds": round(time.monotonic() - start, 1)}


def tests(stage: Stage, report: Report) -> None:
    """The tests marked gpu, in a process of their own."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "tests/gpu"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = (done.stdout.strip() or done.stderr.strip() or "no output").splitlines()
    report.add("exit code of pytest", float(done.returncode), "1", lines[-1], aim=0.0)


def environment(device: torch.device) -> dict[str, Any]:
    """What it ran on."""
    import transformers

    return {
        "device": device_name(device) or platform.processor() or platform.machine(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "transformers": transformers.__version__,
    }


def tell(name: str, part: dict[str, Any]) -> None:
    """A part on the console."""
    click.echo(f"== {name}, {part['seconds']} s")
    for one in part["figures"]:
        met = {None: "", True: "  aim met", False: "  aim missed"}[one["met"]]
        aim = "" if one["aim"] is None else f" (aim {one['aim']:g})"
        click.echo(f"  {one['name']}: {one['value']:.4g} {one['unit']}{aim}{met}")
    for what, why in part["skipped"].items():
        click.echo(f"  {what}: {why}")


if __name__ == "__main__":
    main()
