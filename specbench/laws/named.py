"""A sampler and a device, found by the names that were typed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch

from specbench.catalog import nearest
from specbench.errors import PrerequisiteError, UsageError


def load_sampler(name: str) -> Callable[..., Any]:
    """The function behind ``module:function``; the current directory joins ``sys.path``.

    Raises:
        UsageError: the name has another form, or the module no such function.
        PrerequisiteError: the module cannot be imported.
    """
    module_name, colon, attribute = name.partition(":")
    if not (module_name and colon and attribute):
        raise UsageError(
            f"{name!r} names no sampler", "write module:function, for example my_sampler:verify"
        )
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        own = error.name is not None and f"{module_name}.".startswith(f"{error.name}.")
        hint = "run where its file lies, or install its package" if own else "install it"
        raise PrerequisiteError(f"{name}: no module named {error.name!r}", hint) from error
    except Exception as error:
        raise PrerequisiteError(
            f"{name}: importing {module_name} raised {type(error).__name__}: {error}",
            f"python -c 'import {module_name}' shows where",
        ) from error
    found = getattr(module, attribute, None)
    if not callable(found):
        known = [key for key, value in vars(module).items() if callable(value) and key[0] != "_"]
        raise UsageError(f"{module_name} has no function {attribute!r}", nearest(attribute, known))
    return found


def load_device(name: str) -> torch.device:
    """The device, after a first allocation on it; UsageError or PrerequisiteError otherwise."""
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UsageError(f"--device {name}: no such device", "write cpu or cuda") from error
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise PrerequisiteError(f"--device {name}: {reason}", "write --device cpu") from error
    return device
