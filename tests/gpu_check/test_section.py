"""What docs/gpu.md says of the check, with and without a result."""

import json
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture
def section(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import gpu_sections

    yield gpu_sections
    sys.modules.pop("gpu_sections")


def test_without_a_result_it_says_so(section, tmp_path):
    assert "has not run on a device yet" in section.gpu_check(tmp_path / "none.json")


def test_figures_stand_beside_their_aims(section, tmp_path):
    figure = {"name": "v(8)", "value": 1.0821, "unit": "x", "how": "ratio", "n": 5}
    found = {
        "environment": {"device": "A GPU", "torch": "2", "cuda": "13", "transformers": "5"},
        "sizes": "toys",
        "parts": {
            "forwards": {
                "figures": [
                    figure | {"aim": 1.1, "least": False, "spread": [1.05, 1.12], "met": True},
                    figure | {"aim": None, "least": False, "spread": None, "met": None},
                ],
                "skipped": {"graphs": "none here"},
            }
        },
    }
    path = tmp_path / "gpu.json"
    path.write_text(json.dumps(found))
    said = section.gpu_check(path)
    assert "On A GPU with torch 2, CUDA 13" in said
    assert "| forwards | v(8) | 1.082 x (1.05 to 1.12) | at most 1.1 | yes |" in said
    assert "| forwards | v(8) | 1.082 x | - | - |" in said
    assert "- forwards, graphs: none here" in said
