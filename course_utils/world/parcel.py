"""Values on their way between the notebook and a rank.

ipyparallel would rebuild them in the thread that receives messages, which ends with
the first value that cannot be rebuilt, and all that waits then waits for ever. Here
both sides hand over bytes: they are pickled where the value is, and unpickled by
whoever asked for it, in the calling thread.
"""

from __future__ import annotations

import importlib.machinery
import io
import linecache
import os
import pickle
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import cloudpickle

from course_utils.text import RankError, is_cell

UNNAMED = "<dynamic-code>"  # what cloudpickle calls every file
TENSORS = ("Tensor", "Parameter")  # of torch: those whose storage may be cut down


class CannotSend(RankError, TypeError):
    """A value that cannot be pickled, or cannot be rebuilt on the other side."""


class Pickler(cloudpickle.Pickler):
    """Pickle by value what the other side cannot import, and views without the rest."""

    pruned = False  # whether globals of functions that cannot be pickled are left out

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.sources: dict[str, list[str]] = {}  # lines of the cells of functions

    def reducer_override(self, obj: Any) -> Any:
        """Return how to rebuild `obj`, where pickle's own way would not do."""
        if (part := without_the_rest(obj)) is not None:
            return part.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        if isinstance(obj, types.CodeType):
            return self.code(obj)
        if isinstance(obj, (types.FunctionType, type)):
            by_value_if_unknown(obj.__module__)
        reduced = super().reducer_override(obj)
        if self.pruned and isinstance(obj, types.FunctionType):
            prune(reduced)
        return reduced

    def code(self, code: types.CodeType) -> Any:
        """Return how to rebuild code, with its file, which reports name."""
        name = code.co_filename
        if is_cell(name):
            self.sources[name] = linecache.getlines(name)
        make, args = cloudpickle.cloudpickle._code_reduce(code)
        return make, tuple(name if arg == UNNAMED else arg for arg in args)


class Unpickler(pickle.Unpickler):
    """Rebuild values; functions of a script or notebook find the names of this rank.

    names: the variables of the rank, which such a function reads and assigns as its
        globals; what it brought along stands in for names that are missing there.
    """

    def __init__(self, file: io.BytesIO, names: dict[str, Any] | None) -> None:
        super().__init__(file)
        self.names = names
        self.brought: dict[str, Any] = {}

    def find_class(self, module: str, name: str) -> Any:
        """Return what a pickle names, with globals of its own for functions."""
        if self.names is not None and module == cloudpickle.cloudpickle.__name__:
            own = {"_make_function": self.make, "_function_setstate": self.fill}
            if name in own:
                return own[name]
        return super().find_class(module, name)

    def make(self, code, given: dict, name, defaults, closure) -> types.FunctionType:
        """Make a function; see `cloudpickle._make_function`."""
        if given.get("__name__") != "__main__":
            builtins = given.setdefault("__builtins__", __builtins__)
            return types.FunctionType(code, given, name, defaults, closure)
        before = self.names.get("__builtins__", __builtins__)
        builtins = before if isinstance(before, dict) else vars(before)
        self.brought = self.brought or Fallback(builtins)
        try:  # a function keeps the builtins that its globals have at this moment
            self.names["__builtins__"] = self.brought
            return types.FunctionType(code, self.names, name, defaults, closure)
        finally:
            self.names["__builtins__"] = before

    def fill(self, function: types.FunctionType, state: tuple) -> None:
        """Give a function its state; see `cloudpickle._function_setstate`."""
        attributes, slots = state
        if function.__globals__ is self.names:
            self.brought.update(slots.pop("__globals__"))
            slots["__globals__"] = {}
            before = self.names.get("__builtins__")
        cloudpickle.cloudpickle._function_setstate(function, (attributes, slots))
        if function.__globals__ is self.names:
            self.names["__builtins__"] = before


class Fallback(dict):
    """Python's builtins, and what a function brought along."""


def pack(value: Any) -> bytes:
    """Return a value as bytes; raise `CannotSend` for what cannot be pickled."""
    try:
        return dumped(value)
    except Exception as error:
        reason = error
    try:
        return dumped(value, pruned=True)
    except Exception:
        raise CannotSend(
            f"a value cannot be sent between notebook and ranks: {first_line(reason)}; "
            "send what it is made of, as numbers, text, tensors"
        ) from None


def dumped(value: Any, pruned: bool = False) -> bytes:
    """Pickle a value."""
    file = io.BytesIO()
    pickler = Pickler(file)
    pickler.pruned = pruned
    pickler.dump(value)
    if pickler.sources:
        pickle.dump(pickler.sources, file)
    return file.getvalue()


def unpack(parcel: bytes, names: dict[str, Any] | None = None) -> Any:
    """Return the value that `pack` was given; raise `CannotSend` if that fails.

    names: the variables of the rank, where it is one.
    """
    return opened(parcel, names)[0]


def opened(parcel: bytes, names: dict[str, Any] | None) -> tuple[Any, dict[str, Any]]:
    """Return what `unpack` does, and what its functions brought along."""
    file = io.BytesIO(parcel)
    unpickler = Unpickler(file, names)
    try:
        value = unpickler.load()
        if file.tell() < len(parcel):
            remember(pickle.load(file))
        return value, unpickler.brought
    except Exception as error:
        raise CannotSend(why_not(error, "there" if names is None else "here")) from None


@contextmanager
def standing_in(brought: dict[str, Any], names: dict[str, Any]) -> Iterator[None]:
    """Let functions find what was brought along that are made in a ``with`` block.

    Comprehensions, lambdas and methods of classes are, wherever the code of a function
    has them; they get what stands for Python's builtins at that moment.
    """
    before = names.get("__builtins__")
    try:
        if brought:
            names["__builtins__"] = brought
        yield
    finally:
        names["__builtins__"] = before


def remember(sources: dict[str, list[str]]) -> None:
    """Let reports show lines of cells that another process has run."""
    for name, lines in sources.items():
        size = sum(map(len, lines))
        linecache.cache.setdefault(name, (size, None, lines, name))


def why_not(error: Exception, where: str) -> str:
    """Say why a value cannot be rebuilt; `where`: it exists "here" or "there"."""
    reason = first_line(error)
    if isinstance(error, (AttributeError, ModuleNotFoundError)):
        if where == "there":
            return (
                "a value exists only on the ranks, and cannot be rebuilt here: "
                f"{reason}; fetch what you need of it, as in ranks.run(lambda: p.a), "
                "or put its class into a module that both can import"
            )
        return (
            f"the ranks cannot rebuild what was sent: {reason}; put the module into a "
            "folder of sys.path, or define it in a %%px cell, too"
        )
    return (
        f"a value cannot be rebuilt {'here' if where == 'there' else 'on the rank'}: "
        f"{type(error).__name__}: {reason}; send what it is made of, as numbers, "
        "text, tensors"
    )


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, or its type."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def without_the_rest(obj: Any) -> Any:
    """Return a tensor with a storage of its own, for one that is part of a larger one.

    pickle would send the whole storage: 4 MB for ten elements of a million. None for
    all else.
    """
    kind = type(obj)
    if kind.__name__ not in TENSORS or not kind.__module__.startswith("torch"):
        return None
    try:
        if obj.untyped_storage().nbytes() <= obj.numel() * obj.element_size():
            return None
        part = obj.detach().clone()
    except (RuntimeError, NotImplementedError):  # no storage: sparse, meta and others
        return None
    if kind.__name__ == "Parameter":
        return kind(part, obj.requires_grad)
    return part.requires_grad_(obj.requires_grad)


def by_value_if_unknown(name: str | None) -> None:
    """Let cloudpickle send functions and classes of a module that has no path."""
    if name and name in sys.modules and not has_path(name):
        cloudpickle.register_pickle_by_value(sys.modules[name])


@cache
def has_path(name: str) -> bool:
    """Tell whether another process finds the module of that name on sys.path.

    Test files that pytest imports, and modules made by hand, are found in
    `sys.modules` alone.
    """
    file = getattr(sys.modules[name], "__file__", None)
    top = name.partition(".")[0]
    if file is None or name == "__main__" or top in sys.stdlib_module_names:
        return True
    path, spec, parts = None, None, name.split(".")
    for count in range(1, len(parts) + 1):
        spec = find_spec(".".join(parts[:count]), path)
        if spec is None:
            return False
        path = spec.submodule_search_locations
    if not spec.has_location:  # frozen, or from an archive
        return True
    return os.path.realpath(spec.origin) == os.path.realpath(file)


def find_spec(name: str, path) -> importlib.machinery.ModuleSpec | None:
    """Look for a module as an import would that finds nothing in `sys.modules`."""
    for finder in sys.meta_path:
        try:
            spec = finder.find_spec(name, path)
        except (AttributeError, ImportError):
            continue
        if spec is not None:
            return spec
    return None


def prune(reduced: Any) -> None:
    """Leave out the globals of a function that cannot be pickled.

    The rank may have them: `ranks.run` of a function that names a lock, say.
    """
    if not isinstance(reduced, tuple) or len(reduced) < 3:
        return
    _, slots = reduced[2]
    found = slots["__globals__"]
    for name in list(found):
        try:
            dumped(found[name])
        except Exception:
            del found[name]
