"""Keep torch.compile out of functions that talk to other ranks."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

Given = ParamSpec("Given")
Result = TypeVar("Result")
COMPILER = "torch._dynamo"
REASON = "it waits for the other ranks, whose shapes are not known before it runs"


def eager(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Return a function that runs as it is written, also where its caller is compiled.

    The compiled code breaks in two there; with fullgraph=True, torch raises an error.
    `torch.compiler.disable` does the same, but loads the compiler, for seconds, in
    programs that compile nothing, too.
    """

    def aside(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        sys.modules[COMPILER].eval_frame.skip_code(run.__code__)
        return function(*args, **kwargs)

    uncompiled = torch._disable_dynamo(aside)

    @functools.wraps(function)
    def run(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        if COMPILER in sys.modules:
            return uncompiled(*args, **kwargs)
        return function(*args, **kwargs)

    run._torchdynamo_disable = True  # as `torch.compiler.disable` marks its own
    run._torchdynamo_disable_msg = REASON
    return run
