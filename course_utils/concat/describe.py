"""Say what a rank was given, and what to pass instead where it cannot be sent."""

from __future__ import annotations

import operator
import reprlib
from collections.abc import Iterable, Mapping
from numbers import Number
from typing import Any

import torch

from course_utils.concat.tell import Refused
from course_utils.concat.transfer import as_bytes, packed

ROOT_ONLY = ("broadcast_tensor", "scatter_chunks")
LISTS = {"all_gather_cat": "all_gather_list", "gather_cat": "gather_list"}
MAX_DIMS = 16
FARTHEST = 2**31  # from 0; no dim or rank lies beyond
NUMBERS = tuple("biufc")  # kinds of numpy's dtypes
OBJECTS = "text and objects travel with dist.all_gather_object"
LAYOUTS = {
    torch.sparse_coo: "sparse tensor (COO)",
    torch.sparse_csr: "sparse tensor (CSR)",
    torch.sparse_csc: "sparse tensor (CSC)",
    torch.sparse_bsr: "sparse tensor (BSR)",
    torch.sparse_bsc: "sparse tensor (BSC)",
}
SUBCLASSES = {  # by name, so that nothing has to be loaded
    "DTensor": "call .full_tensor(), or .to_local() for the part of this rank",
    "AsyncCollectiveTensor": "call .wait() first",
    "FakeTensor": "it holds no values; make it outside FakeTensorMode",
    "FunctionalTensor": "it holds no values; call this outside torch.compile",
    "MaskedTensor": "call .to_tensor(value), with a value for what is masked",
}


def whole_number(value: Any, name: str) -> int:
    """Return a dim or rank as an int; refuse what is not one, True included."""
    if type(value) is int and -FARTHEST < value < FARTHEST:
        return value
    try:
        if isinstance(value, bool) or getattr(value, "dtype", None) == torch.bool:
            raise TypeError
        number = operator.index(value)
    except Exception:
        kind = "" if value is None else f", {named(value)}"
        raise Refused(
            f"passed {name}={short(value)}{kind}: pass a whole number, such as 0"
        ) from None
    if abs(number) >= FARTHEST:
        raise Refused(f"passed {name}={short(value)}: no dim or rank is that large")
    return number


def plain(value: Any, operation: str) -> torch.Tensor:
    """Return a tensor as a torch.Tensor with its graph; refuse what is none."""
    if not isinstance(value, torch.Tensor):
        raise Refused(f"passed {named(value)}{instead(value, operation)}")
    with torch._C.DisableTorchFunctionSubclass():
        unusable(value, operation)
        if type(value) in (torch.Tensor, torch.nn.Parameter):
            return value
        return value.as_subclass(torch.Tensor)


def unusable(tensor: torch.Tensor, operation: str) -> None:
    """Raise Refused if a tensor does not keep its values in a strided memory."""
    kind, name = type(tensor), type(tensor).__name__
    if tensor.is_nested:
        to = LISTS.get(operation, operation)
        to = "this, one by one" if to in ROOT_ONLY else to
        raise Refused(f"passed a nested tensor: pass the parts of .unbind() to {to}")
    if kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        way = SUBCLASSES.get(name, "pass a torch.Tensor of its values")
        raise Refused(f"passed {named(tensor)}, not a plain tensor: {way}")
    if torch.nn.parameter.is_lazy(tensor):
        raise Refused(
            f"passed {named(tensor)}, which has no shape yet: run its module once first"
        )
    if tensor.layout != torch.strided:
        what = LAYOUTS.get(tensor.layout, f"tensor of layout {tensor.layout}")
        raise Refused(f"passed a {what}: call .to_dense() first")
    if tensor.is_quantized:
        raise Refused(
            f"passed a quantised tensor ({tensor.dtype}): call .dequantize() first, "
            "or pass .int_repr() and send scale and zero point beside it"
        )
    if tensor.dim() > MAX_DIMS:
        raise Refused(
            f"passed a tensor of more than {MAX_DIMS} dimensions: call .flatten() first"
        )
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        raise Refused(
            "passed a tensor inside torch.func or vmap: call this outside of them"
        )


def memory_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor's values, in order, as flat bytes; refuse if it has none."""
    if tensor.numel() and not tensor.data_ptr():
        raise Refused("passed a tensor without memory: it was freed, or never there")
    return as_bytes(packed(tensor))


def instead(value: Any, operation: str) -> str:
    """Say what to pass instead of a value that is no tensor."""
    root_only = operation in ROOT_ONLY
    if value is None:
        way = "a rank without rows passes an empty tensor, as torch.empty(0)"
        way = "the root has to pass one" if root_only else way
        return f" instead of a tensor: {way}"
    if isinstance(value, (list, tuple)) and not root_only:
        if not value or any(isinstance(item, torch.Tensor) for item in value):
            return f", for lists of tensors there is {LISTS[operation]}"
    way = converted(value)
    if way:
        return f": pass {way}"
    gathered = something_listed(value)
    if gathered and root_only:
        return ": pass one tensor; call this for each one"
    if gathered:
        return f": pass one tensor, or {gathered} to {LISTS[operation]}"
    return f": pass a torch.Tensor; {OBJECTS}"


def converted(value: Any) -> str:
    """Return the expression that makes a tensor of a value, "" if there is none."""
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if isinstance(value, type) or kind and kind not in NUMBERS:
        return ""
    if isinstance(value, Number) or kind and not value.shape:
        return "torch.tensor(value)"
    if named(value) == "a numpy.ndarray":
        return "torch.from_numpy(array)"
    if isinstance(value, (list, tuple)) and value:
        numbers = all(isinstance(item, Number) for item in value)
        return "torch.tensor(values)" if numbers else ""
    if hasattr(value, "__array__"):
        return "torch.as_tensor(numpy.asarray(value))"
    return "torch.from_dlpack(value)" if hasattr(value, "__dlpack__") else ""


def something_listed(value: Any) -> str:
    """Return the expression that lists the tensors in a value, "" for no such."""
    if isinstance(value, torch.nn.Module):
        return "list(module.parameters())"
    if isinstance(value, Mapping):
        return "list(mapping.values())"
    if isinstance(value, (list, tuple)):
        return "a flat list of tensors"
    text = isinstance(value, (str, bytes, bytearray, type))
    named_as = type(value).__module__.partition(".")[0]
    if isinstance(value, Iterable) and not text and named_as != "numpy":
        return "list(value)"
    return ""


def items_of(value: Any, operation: str) -> list[torch.Tensor]:
    """Return the tensors of a list, or of one tensor; refuse what is neither."""
    if isinstance(value, torch.Tensor):
        value = [value]
    if not isinstance(value, (list, tuple)):
        empty = "a rank without tensors passes []"
        way = converted(value) or something_listed(value) or f"a list; {OBJECTS}"
        way = empty if value is None else f"pass {way}"
        raise Refused(f"passed {named(value)} instead of a list of tensors: {way}")
    return [item_of(item, f"item {i}", operation) for i, item in enumerate(value)]


def item_of(value: Any, name: str, operation: str) -> torch.Tensor:
    """Return an item of a list as a torch.Tensor; refuse what is none."""
    if not isinstance(value, torch.Tensor):
        way = f"pass torch.Tensors; {OBJECTS}"
        if value is None:
            way = "leave it out"
        elif converted(value):
            way = f"pass {converted(value)}"
        elif something_listed(value):
            way = "pass all tensors in one flat list"
        raise Refused(f"passed a list whose {name} is {named(value)}: {way}")
    try:
        return plain(value, operation)
    except Refused as refused:
        what = str(refused).removeprefix("passed ")
        raise Refused(f"passed a list whose {name} is {what}") from None


def named(value: Any) -> str:
    """Name the type of a value, as in "a numpy.ndarray"."""
    if value is None:
        return "None"
    kind = type(value)
    package = kind.__module__.partition(".")[0]
    name = kind.__name__
    if package not in ("builtins", "torch", "__main__"):
        name = f"{package}.{name}"
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def short(value: Any) -> str:
    """Return the repr of a value in one short line."""
    return " ".join(reprlib.repr(value).split())
