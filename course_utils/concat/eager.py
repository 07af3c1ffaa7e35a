"""Keep what transforms or records code out of functions that talk to other ranks."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import ParamSpec, TypeVar

import torch

Given = ParamSpec("Given")
Result = TypeVar("Result")
INFRA = list(torch._C._TorchDispatchModeKey.__members__.values())
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


def transforming() -> str:
    """Name what is at work here for which tensors have no values, "" for nothing."""
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return "torch.func or vmap"
    if torch._C._get_tracing_state() is not None:
        return "torch.jit.trace"
    found = [key for key in INFRA if torch._C._get_dispatch_mode(key) is not None]
    return "FakeTensorMode, torch.export or another tracer" if found else ""


@contextmanager
def suspended() -> Iterator[None]:
    """Let tensors have values in a ``with`` block, whatever is at work here."""
    from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
    from torch.overrides import _pop_mode_temporarily
    from torch.utils._python_dispatch import _disable_current_modes

    traced = torch._C._get_tracing_state()
    with ExitStack() as stack:
        while torch._C._len_torch_function_stack():
            stack.enter_context(_pop_mode_temporarily())
        stack.enter_context(temporarily_clear_interpreter_stack())
        stack.enter_context(_disable_current_modes())
        torch._C._set_tracing_state(None)
        stack.callback(torch._C._set_tracing_state, traced)
        yield
