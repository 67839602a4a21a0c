"""From the name or place of a model to the GGUF file that llama.cpp can load."""

from __future__ import annotations

from pathlib import Path

from specbench.core.cache import cache_folder
from specbench.errors import PrerequisiteError
from specbench.models.folder import read_record
from specbench.models.locate import Location, locate
from specbench.models.weights import weight_hash

FULL = "float32"
"""The type for which a folder is written out, so that engines decode with the same weights."""


def gguf_file(model: str, dtype: str = "") -> Path:
    """A ``.gguf`` file as it is; for a folder one with the weights in the type that is asked for.

    Args:
        dtype: ``float32`` writes the folder's weights out, once, into the cache. Otherwise the
            file from which the folder was converted is taken, while that is still in the cache.

    Raises:
        PrerequisiteError: no such file, or a folder without one; says how to write it.
        UsageError: nothing is known by this name.
    """
    # A folder that exists is taken by its record alone: it may come from a name already located.
    folder = Path(model).expanduser()
    if not folder.is_dir():
        location = locate(model)
        if location.kind == "gguf":
            return folder
        if location.path is None:
            raise PrerequisiteError(
                f"{model} is not on this disk", f"type: specbench models fetch {model}"
            )
        folder = location.path
    if dtype == FULL:
        return _written(folder)
    record = read_record(folder) or {}
    source = cache_folder() / "downloads" / str(record.get("source_file", ""))
    if source.is_file():
        return source
    raise PrerequisiteError(
        f"llama.cpp reads GGUF files, and {model} is none",
        f"type: specbench models export {model} --to MODEL.gguf, and name that file",
    )


def _written(folder: Path) -> Path:
    """The folder's weights in float32, from the cache where they were written before."""
    name = f"{folder.name}-{weight_hash(folder)[:12]}-f32.gguf"
    path = cache_folder() / "exports" / name
    if not path.is_file():
        from specbench.models.gguf_write import export

        export(Location("folder", folder.name, None, folder, str(folder)), path)
    return path
