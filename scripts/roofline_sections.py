"""The generated sections of docs/roofline.md: devices, families of models and a call's output."""

from __future__ import annotations

from click.testing import CliRunner

from specbench.cli.roofline import roofline
from specbench.cli.rows import markdown
from specbench.models.shapes.families import FAMILIES
from specbench.models.shapes.find import known_shapes
from specbench.roofline.devices import DEVICES, Device

CALL = ("llama-3.1-8b", "--draft", "eagle3", "--device", "h200")


def device_table() -> str:
    """Every device with its figures and their source."""
    return markdown([_device(device) for device in DEVICES.values()])


def _device(device: Device) -> dict[str, object]:
    return {
        "name": f"`{device.name}`",
        "device": device.title,
        "TB/s": f"{device.bandwidth / 1e12:g}",
        "TFLOP/s in 16 bits": f"{device.peaks['float16'] / 1e12:g}",
        "in 8 bits": f"{device.peaks['float8'] / 1e12:g}" if "float8" in device.peaks else "-",
        "GB": f"{device.memory / 1e9:g}",
        "ridge in 16 bits": f"{device.ridge('float16'):.0f}",
        "source": f"[{device.source}]({device.sheet.url})" if device.sheet else device.source,
        "rates there": device.sheet.rates if device.sheet else "-",
    }


def model_types() -> str:
    """Families that are read, and shapes that ship."""
    types = ", ".join(f"`{name}`" for name in FAMILIES)
    shapes = ", ".join(f"`{name}`" for name in known_shapes())
    return f"Model types: {types}.\n\nShapes that need no file: {shapes}."


def example() -> str:
    """What a call prints."""
    done = CliRunner().invoke(roofline, list(CALL), catch_exceptions=False)
    text = "\n".join(line.rstrip() for line in done.stdout.splitlines())
    return f"```text\n$ specbench roofline {' '.join(CALL)}\n{text}\n```"
