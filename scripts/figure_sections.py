"""Sections of the documentation that are tables of figures in results/*.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from specbench.cli.rows import markdown
from specbench.report.gated import WORDS
from specbench.results.gate.decide import Outcome

ROOT = Path(__file__).resolve().parents[1]


def evidence_table() -> str:
    """What evidence costs, from results/evidence.json."""
    return figure_table("evidence.json")


def bench_table() -> str:
    """The figures of scripts/bench."""
    return figure_table("bench.json")


def drafting_table() -> str:
    """What drafting, trees and replay cost, a line for every figure."""
    path = ROOT / "results" / "drafting.json"
    figures: dict[str, Any] = json.loads(path.read_text("utf-8"))
    threads = figures.pop("torch_threads")
    lines = ["| figure | of | measured |", "| --- | --- | --- |"]
    for figure, values in figures.items():
        lines += [f"| `{figure}` | {of} | {_short(value)} |" for of, value in values.items()]
    return "\n".join([*lines, "", f"{threads} threads, float32, SmolLM2-135M-Instruct."])


def result_files_table() -> str:
    """What reading result files costs: a line per command, then reading of traces."""
    path = ROOT / "results" / "result_files.json"
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    lines = ["| command | s | peak MiB |", "| --- | --- | --- |"]
    for name, seconds in found["seconds"].items():
        lines.append(f"| {name} | {_short(seconds)} | {found['peak_memory_mb'][name]:.0f} |")
    lines += ["", "| traces | measured |", "| --- | --- |"]
    lines += [f"| {name} | {_short(value)} |" for name, value in found["traces"].items()]
    runs = found["runs"]
    return "\n".join(
        [
            *lines,
            "",
            f"{runs['runs']} runs of {runs['prompts']} prompts and {runs['arms']} arms, "
            f"{runs['items_csv_mb']:.0f} MB of items.csv, {found['cores']} cores.",
        ]
    )


def figure_table(name: str) -> str:
    """A table of measured figures from a file of results/."""
    path = ROOT / "results" / name
    figures: dict[str, Any] = json.loads(path.read_text("utf-8"))
    lines = ["| figure | measured |", "| --- | --- |"]
    for figure, value in figures.items():
        if isinstance(value, dict):
            text = ", ".join(f"{key}: {_short(entry)}" for key, entry in value.items())
        else:
            text = _short(value)
        lines.append(f"| `{figure}` | {text} |")
    return "\n".join(lines)


def selftest_tables() -> str:
    """Level and power of the fidelity tests, from results/selftest.json."""
    rows: list[dict[str, Any]] = json.loads((ROOT / "results" / "selftest.json").read_text("utf-8"))
    parts = []
    for setting in dict.fromkeys(row["setting"] for row in rows):
        chosen = [row for row in rows if row["setting"] == setting]
        shown = [{k: v for k, v in row.items() if k != "setting"} for row in chosen]
        parts.append(f"{setting}:\n\n{markdown(shown)}")
    return "\n\n".join(parts)


def black_box() -> str:
    """How soon a replay finds what a black box does wrong, from results/black_box.json."""
    found: dict[str, Any] = json.loads((ROOT / "results" / "black_box.json").read_text("utf-8"))
    settings = ", ".join(f"{name}={value:g}" for name, value in found["settings"].items())
    tables = f"{markdown(found['power'])}\n\nFalse alarms:\n\n{markdown(found['false_alarms'])}"
    return f"{tables}\n\n`{found['command']}`: {settings.replace('_', ' ')}."


def gate_faults() -> str:
    """What a gate says of planted faults, and the checks that decide, from gate_faults.json."""
    path = ROOT / "results" / "gate_faults.json"
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    rows = []
    for one in found["rows"]:
        decisive = [check for check in one["checks"] if check["outcome"] == one["verdict"]]
        # Where all is well every check says so.
        told = decisive if one["verdict"] != WORDS[Outcome.PASS] else ()
        by = "; ".join(
            f"{check['check']}, {check['where']}: {check['change'] or _bare(check['why'])}"
            for check in told
        )
        rows.append({"what was done": one["fault"], "verdict": one["verdict"], "by": by})
    settings = found["settings"]
    return (
        f"{markdown(rows)}\n\n{settings['prompts']} prompts at two temperatures, "
        f"{settings['tokens']} tokens, the MTP head with K = {settings['k']}."
    )


def _bare(why: str) -> str:
    """A reason without the verdict that stands beside it."""
    return why.removeprefix(f"{WORDS[Outcome.FAIL]}: ")


def agreement() -> str:
    """How far llama.cpp on quantised weights is from a float32 replay."""
    path = ROOT / "results" / "llamacpp_agreement.json"
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    share = found["greedy_first_choice"] / found["greedy_tokens"]
    return (
        f"Against a float32 replay of its plain outputs: {found['greedy_first_choice']} of "
        f"{found['greedy_tokens']} greedy tokens ({share:.1%}) are the first choice there; "
        f"KL(server, replay) is {found['kl_nats']:.2g} ± {found['kl_error']:.1g} nats per token "
        f"over {found['sampled_tokens']} sampled tokens. Nothing is asserted of that: the server "
        "rounds activations for its quantised kernels."
    )


def _short(value: object) -> str:
    return (
        f"{value:.3g}"
        if isinstance(value, float) and value < 100
        else (f"{value:.0f}" if isinstance(value, float) else str(value))
    )
