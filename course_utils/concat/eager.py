"""Keep torch.compile out of functions that talk to other ranks."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

Given = ParamSpec("Given")
Result = TypeVar("Result")


def eager(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Return a function that runs as it is written, also in compiled code.

    The shapes that other ranks tell are not known when code is compiled, so it
    breaks in two here. `torch.compiler.disable` does the same, but loads the
    compiler, which takes seconds, in programs, too, that compile nothing.
    """
    uncompiled = torch._disable_dynamo(function)

    @functools.wraps(function)
    def run(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        if "torch._dynamo" in sys.modules:
            return uncompiled(*args, **kwargs)
        return function(*args, **kwargs)

    return run
