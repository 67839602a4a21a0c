"""Sections of the documentation that are made from committed results and from the code.

README.md and docs/fidelity.md: runs in results/, results/selftest.json (``specbench fidelity
--selftest --json``) and results/black_box.json (``scripts/black_box_power.py``). docs/engines.md:
runs, results/llamacpp_agreement.json (``scripts/llamacpp_agreement.py``) and the launchers.
docs/performance.md: results/bench.json, results/evidence.json, results/drafting.json and
results/result_files.json (``scripts/bench --json``, the latter three with
``--only evidence_share``, ``--only drafting`` and ``--only result_files``).
docs/drafters.md: the catalogue and a run of drafters. docs/training.md: the schema of recipes, the
cards of the heads that ship, the reference run, results/norms.json (``scripts/norms.py``) and
results/vocabularies.json (``scripts/vocabularies.py``). docs/ci.md: results/gate_faults.json
(``scripts/gate_faults.py``). docs/comparing.md: readers of foreign formats; with docs/ci.md,
results/coverage.json (``python -m scripts.simulations``). docs/roofline.md: devices, model types
and a call. docs/gpu.md: results/gpu.json (``scripts/gpu_check``), where there is one.
"""

from __future__ import annotations

import io
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click
from coverage_sections import false_claims, false_failures, interval_coverage
from drafter_sections import drafter_options, drafter_table
from figure_sections import (
    agreement,
    bench_table,
    black_box,
    drafting_table,
    evidence_table,
    gate_faults,
    result_files_table,
    selftest_tables,
)
from gpu_sections import gpu_check
from import_sections import import_formats
from recipe_sections import recipe_keys
from rich.console import Console
from roofline_sections import device_table, example, model_types
from training_sections import (
    measured_table,
    norms_table,
    targets_table,
    vocabularies_table,
    zoo_table,
)

from specbench.core.arm import ArmSpec
from specbench.core.manifest import Manifest
from specbench.engines.servers.paste import pasteable
from specbench.experiment.server_arms import launcher_of
from specbench.report.cells import footnoted, grid, state
from specbench.report.console import WIDTH as SUMMARY_WIDTH
from specbench.report.console import ConsoleSummary
from specbench.report.joint import joint_grid
from specbench.report.markdown import table_lines
from specbench.report.prices import prices, verdicts
from specbench.results.comparable import require_comparable
from specbench.results.read import load_manifest
from specbench.results.store import RunFolder
from specbench.results.summary import Summary, read_summary

ROOT = Path(__file__).resolve().parents[1]


def committed_run(title: str) -> tuple[Summary, str]:
    """The newest complete run of a title in results/, and its path from the repository."""
    return committed_runs(title)[-1]


def committed_runs(title: str) -> list[tuple[Summary, str]]:
    """The complete runs of a title in results/, oldest first, with their paths."""
    found = []
    for path in tracked_runs():
        summary = read_summary(RunFolder(path))
        if summary.title == title and summary.complete:
            found.append((summary, path.relative_to(ROOT).as_posix()))
    if not found:
        raise click.ClickException(
            f"results/ holds no complete run with the title {title!r} that git knows; git add it"
        )
    return found


def tracked_runs() -> list[Path]:
    """Folders of runs in results/, oldest first.

    Runs that git does not know are left out: whoever ran the quickstart has one of their own there.
    An unpacked archive has no git, and nothing but what was committed.
    """
    tracked = ["git", "-C", str(ROOT), "ls-files", "--", "results/*/summary.json"]
    listed = subprocess.run(tracked, check=False, capture_output=True, text=True).stdout.split()
    names = [ROOT / name for name in listed] or (ROOT / "results").glob("*/summary.json")
    return sorted(path.parent for path in names)


def quickstart_output() -> str:
    """What the quickstart prints at its end, as on a terminal."""
    return console_text(*committed_run("demonstration"))


def measured_on(summary: Summary) -> str:
    """What was measured where, and whether all of it was."""
    return f"{summary.target}, {summary.dtype}, {summary.device}; {state(summary)}."


def with_files(path: str) -> str:
    """Where the files of a run are, for a page in docs/."""
    return f"Files: [{path}](../{path})."


def reference_table() -> str:
    """The reference run's table, its sentence, and where the files are."""
    summary, path = committed_run("reference")
    table = grid(summary)
    notes = [f"[{number}] {text}" for number, text in enumerate(table.footnotes, 1)]
    return "\n".join(
        [
            *table_lines(table),
            "",
            f"{measured_on(summary)} {summary.sentence}",
            "",
            f"{'; '.join(notes)}. Files: [{path}]({path}).",
        ]
    )


def heads_measured() -> str:
    """The heads that ship, in the reference run."""
    summary, path = committed_run("reference")
    return f"{measured_table(summary)}\n\n{measured_on(summary)} {with_files(path)}"


def heads_against_targets() -> str:
    """What the heads that ship were to reach, and reach in the reference run."""
    return targets_table(committed_run("reference")[0])


PASTED = {
    "vllm": ("meta-llama/Llama-3.1-8B-Instruct", "eagle3", "rejection"),
    "sglang": ("meta-llama/Llama-3.1-8B-Instruct", "eagle3", "target_match"),
    "trtllm": ("meta-llama/Llama-3.1-8B-Instruct", "eagle3", "target_match"),
}
"""Engine -> target, drafter and rule of the servers whose commands the page shows."""

HEAD = {"model": "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"}


def pasted_commands() -> str:
    """The plain server and a speculative one of each engine, as they would be started here."""
    parts = []
    for engine, (target, drafter, rule) in PASTED.items():
        launcher = launcher_of(engine)
        assert launcher is not None
        arms = [ArmSpec("plain"), ArmSpec(drafter, drafter, 3, rule, engine, HEAD)]
        plain, speculative = pasteable(launcher, target, arms, dtype="bfloat16", context=8192)
        attach = (
            f"specbench run --engine {engine} --url http://127.0.0.1:8001 \\\n"
            f"  --plain-url http://127.0.0.1:8000 --drafter {drafter} -k 3 --rule {rule} \\\n"
            "  --suite code --suite chat --temperature 0 --temperature 0.7"
        )
        parts += [f"**{engine}**", "", "```bash", plain, "", speculative, "", attach, "```", ""]
    return "\n".join(parts).strip()


def console_text(summary: Summary, path: str) -> str:
    """What a run prints at its end, as on a terminal."""
    console = Console(file=io.StringIO(), width=SUMMARY_WIDTH, highlight=False, color_system=None)
    with console.capture() as captured:
        console.print(ConsoleSummary(summary, path))
    lines = (line.rstrip() for line in captured.get().splitlines())
    return "```text\n" + "\n".join(lines).strip() + "\n```"


def llamacpp_output() -> str:
    """The demonstration on llama.cpp: its table, its sentence, and where the files are."""
    summary, path = committed_run("demonstration on llama.cpp")
    table = grid(summary)
    return "\n".join(
        [
            *table_lines(table),
            "",
            f"{measured_on(summary)} {summary.sentence} {with_files(path)}",
        ]
    )


def engines_output() -> str:
    """The newest run of one experiment on each engine, in one table."""
    newest: dict[str, tuple[Manifest, Summary, str]] = {}
    for summary, path in committed_runs("one experiment, three engines"):
        manifest = load_manifest(RunFolder(ROOT / path))
        newest[str(manifest.engine["name"])] = (manifest, summary, path)
    manifests = [manifest for manifest, _, _ in newest.values()]
    require_comparable(manifests)
    table = joint_grid(manifests, [summary for _, summary, _ in newest.values()])
    files = ", ".join(f"[{engine}](../{path})" for engine, (_, _, path) in newest.items())
    return "\n".join([*table_lines(table), "", *footnoted(table), "", f"Files: {files}."])


def drafters_table() -> str:
    """Every drafter of the newest run of drafters, over all suites."""
    summary, path = committed_run("drafters")
    whole = tuple(row for row in summary.rows if row.suite == "all")
    table = grid(replace(summary, rows=whole))
    return "\n".join(
        [
            *table_lines(table),
            "",
            *footnoted(table),
            "",
            f"{measured_on(summary)} {with_files(path)}",
        ]
    )


def rules_table() -> str:
    """Speed and price of four rules, and every verdict, from the newest complete run of rules."""
    summary, path = committed_run("rules")
    table = prices(summary)
    return "\n".join(
        [
            *table_lines(table),
            "",
            *(f"- {line}" for line in verdicts(summary)),
            "",
            f"{measured_on(summary)} {with_files(path)}",
        ]
    )


SECTIONS: dict[str, dict[str, Callable[[], str]]] = {
    "README.md": {"quickstart": quickstart_output, "reference": reference_table},
    "docs/engines.md": {
        "commands": pasted_commands,
        "llamacpp": llamacpp_output,
        "engines": engines_output,
        "agreement": agreement,
    },
    "docs/drafters.md": {
        "drafter table": drafter_table,
        "drafters": drafters_table,
        "drafter options": drafter_options,
    },
    "docs/performance.md": {
        "bench": bench_table,
        "evidence": evidence_table,
        "drafting": drafting_table,
        "result files": result_files_table,
    },
    "docs/comparing.md": {
        "coverage": interval_coverage,
        "claims": false_claims,
        "import formats": import_formats,
    },
    "docs/ci.md": {"failures": false_failures, "gate faults": gate_faults},
    "docs/training.md": {
        "recipe keys": recipe_keys,
        "zoo": zoo_table,
        "measured": heads_measured,
        "targets": heads_against_targets,
        "norms": norms_table,
        "vocabularies": vocabularies_table,
    },
    "docs/roofline.md": {
        "roofline-example": example,
        "roofline-models": model_types,
        "roofline-devices": device_table,
    },
    "docs/gpu.md": {"gpu check": gpu_check},
    "docs/fidelity.md": {"rules": rules_table, "selftest": selftest_tables, "blackbox": black_box},
}
