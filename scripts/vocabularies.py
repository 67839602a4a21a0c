"""What a smaller draft vocabulary costs in acceptance and gains in time, by language.

The head that ships is cut to fewer of its tokens, or given the next frequent ones: its projection
is the target's rows of them, so nothing is trained again. All cuts decode the same prompts in
alternation with plain decoding. Writes results/vocabularies.json.

    .venv/bin/python scripts/vocabularies.py --data train/data    (of scripts/train_zoo/run)
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pandas as pd
import torch

from specbench.models.heads.configs import HeadCheckpoint, MtpConfig, TargetShape
from specbench.models.heads.read import read_head
from specbench.models.heads.write import write_head
from specbench.models.load import load_model
from specbench.models.locate import locate
from specbench.train.data.asked import Answered
from specbench.train.job.vocabulary import count_tokens, frequent_ids

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "results" / "vocabularies.json"
TARGET, HEAD, K = "smollm2-135m-instruct", "zoo:smollm2-135m-mtp", 3
SIZES = (1024, 2048, 4096, 8192, 16384)
LANGUAGES = {
    "en": "English",
    "de": "German",
    "fr": "French",
    "es": "Spanish",
    "zh": "Chinese",
    "ja": "Japanese",
}


def cut(head: HeadCheckpoint, ids: Sequence[int] | None) -> HeadCheckpoint:
    """The head with these tokens, in rising order; None for the target's whole vocabulary."""
    config, tensors = head.config, dict(head.tensors)
    assert isinstance(config, MtpConfig)
    tensors.pop("target_ids", None)
    if ids is not None:
        tensors["target_ids"] = torch.tensor(ids)
    size = config.target.vocabulary if ids is None else len(ids)
    return replace(head, config=replace(config, draft_vocabulary=size), tensors=tensors)


def own_first(head: HeadCheckpoint, counted: Counter[int]) -> Counter[int]:
    """The counts with all tokens that the head has before all others: it is one of the cuts."""
    most = counted.total()
    return counted + Counter(dict.fromkeys(head.tensors["target_ids"].tolist(), most))


def cuts(data: Path) -> Iterator[tuple[int, HeadCheckpoint]]:
    """Number of tokens, and the head with so many, the most frequent of the target's answers."""
    target = load_model(locate(TARGET))
    lines = (data / "answers.jsonl").read_text("utf-8").splitlines()
    counted = count_tokens(Answered.of(json.loads(line)) for line in lines)
    rows = target.model.get_input_embeddings().num_embeddings
    place = locate(HEAD, needs_tokenizer=False)
    head = read_head(place, families=("mtp",), target=TargetShape.of(target.config), dtype="auto")
    counted = own_first(head, counted)
    for size in SIZES:
        yield size, cut(head, frequent_ids(counted, size, target.eos_ids, rows))
    yield rows, cut(head, None)


def experiment(folders: dict[int, Path], limit: int) -> str:
    """experiment.toml: an arm per size."""
    arms = "".join(
        f'[arm.v{size}]\ndrafter = "mtp"\nk = {K}\noptions = {{ model = "{folder}" }}\n'
        for size, folder in folders.items()
    )
    return f"""schema_version = 1
name = "vocabularies"
title = "draft vocabularies"
[target]
model = "{TARGET}"
[workload]
suites = ["code", "chat", "translation"]
split = "all"
limit = {limit}
temperatures = [0.0, 0.7]
max_new_tokens = 64
{arms}"""


def language(suite: str, category: str) -> str:
    """What an answer is asked to be written in."""
    if suite == "code":
        return "code"
    return LANGUAGES[category.rpartition("-")[2]] if suite == "translation" else "English"


def by_language(items: pd.DataFrame) -> list[dict[str, Any]]:
    """Accept length, and decode time per token of plain over that of each cut, by language."""
    done = items[items["error"].isna() & (items["steps"] > 0)].copy()
    done["language"] = [
        language(*pair) for pair in zip(done["suite"], done["category"], strict=True)
    ]
    done["time"] = done["last_token_ns"] - done["first_token_ns"]
    everything = done.assign(language="all")
    columns = ["steps", "committed", "time"]
    both = pd.concat([done, everything])
    sums = both.groupby(["temperature", "language", "arm"], as_index=False)[columns].sum()
    found = {(r["temperature"], r["language"], r["arm"]): r for r in sums.to_dict("records")}
    rows: list[dict[str, Any]] = []
    for (temperature, name, arm), one in found.items():
        if arm == "plain":
            continue
        plain = found[temperature, name, "plain"]
        rows.append(
            {
                "temperature": temperature,
                "language": name,
                "tokens": int(arm[1:]),
                "accept_length": one["committed"] / one["steps"],
                "speedup": plain["time"] / plain["committed"] / (one["time"] / one["committed"]),
            }
        )
    return sorted(rows, key=lambda row: (row["temperature"], row["language"], row["tokens"]))


@click.command()
@click.option("--data", type=click.Path(exists=True, path_type=Path), required=True)
@click.option("--limit", default=12, help="Prompts per suite.")
def main(data: Path, limit: int) -> None:
    """Cut, run, and group what was measured."""
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        folders = {}
        for size, head in cuts(data):
            folders[size] = write_head(head, work / f"v{size}", head.layout)
        file = work / "experiment.toml"
        file.write_text(experiment(folders, limit), "utf-8")
        command = [str(Path(sys.executable).with_name("specbench")), "run", str(file), "--yes"]
        subprocess.run([*command, "--out", str(work / "runs")], check=True)
        (path,) = (work / "runs").glob("*/items.csv")
        rows = by_language(pd.read_csv(path))
    OUT.write_text(json.dumps({"limit": limit, "k": K, "rows": rows}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
