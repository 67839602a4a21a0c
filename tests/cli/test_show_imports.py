"""What reads results works where torch is not installed, and loads nothing slow unasked."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module", ["show", "compare", "gate", "baseline", "leaderboard", "report", "rescore", "run"]
)
def test_neither_torch_nor_statistics(module):
    # scipy.stats takes half a second to load: ``import scipy`` does that at its first use.
    slow = "{'torch', 'scipy.stats'} & set(sys.modules)"
    code = f"import sys, specbench.cli.{module}; sys.exit(', '.join({slow}) or 0)"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_known_of_drafters_is_said_without_loading_transformers():
    """Only what loads a model waits seconds for it."""
    code = (
        "import sys\n"
        "from specbench.cli.main import call\n"
        "call(['list', 'drafters'])\n"
        "import specbench.engines.native\n"
        "sys.exit('transformers' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "eagle3" in done.stdout


WITHOUT_EXTRAS = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        extras = "torch transformers safetensors gguf jinja2 h11 httpx matplotlib datasets"
        if name.partition(".")[0] in extras.split():
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
import specbench.experiment.analyse
"""


def test_verifying_and_rescoring_need_no_extras():
    done = subprocess.run([sys.executable, "-c", WITHOUT_EXTRAS], check=False)
    assert done.returncode == 0
