"""How values and ranks are written in a verdict."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from course_utils.exercises.answers import Other, is_list
from course_utils.pictures import Snapshot
from course_utils.text import these_ranks

TEXT_LIMIT = 100  # characters of a value that an answer shows


def start(ranks: Iterable[int]) -> str:
    """Write ranks at the start of a sentence, as in "Ranks 0–2"."""
    return these_ranks(ranks).capitalize()


def plural(ranks: list[int], one: str, many: str) -> str:
    """Choose the form of a verb for some ranks."""
    return one if len(ranks) == 1 else many


def kind(value: Any) -> str:
    """Say what a value is, as in "a tensor of shape (2,)"."""
    if value is None:
        return "None"
    if isinstance(value, Snapshot):
        return f"a tensor of shape {value.shape}"
    if isinstance(value, Other):
        name = value.kind
        return f"an {name}" if name[:1].lower() in "aeio" else f"a {name}"
    if is_list(value):
        return f"a {type(value).__name__} of {len(value)}"
    names = {
        "int": "a whole number",
        "float": "a float",
        "str": "text",
        "bool": "a truth",
    }
    return names.get(type(value).__name__, f"a {type(value).__name__}")


def listed(numbers: Iterable[int]) -> str:
    """Write numbers in order, as in "2, 3 and 4"."""
    *most, last = map(str, sorted(numbers))
    return f"{', '.join(most)} and {last}" if most else last


def words(value: Any) -> str:
    """Write a value in one line, cut where it is long."""
    text = re.sub(r"0x[0-9a-f]+", "…", _words(value))
    return text if len(text) <= TEXT_LIMIT else text[: TEXT_LIMIT - 1] + "…"


def _words(value: Any) -> str:
    if isinstance(value, Snapshot):
        if value.truncated:
            return f"tensor of shape {value.shape}, {value.dtype}"
        return _nested(value.shape, list(value.values))
    if isinstance(value, Other):
        return value.text
    if is_list(value):
        inner = ", ".join(map(_words, value))
        if type(value) is tuple:
            return f"({inner}{',' if len(value) == 1 else ''})"
        return f"[{inner}]"
    return repr(value)


def _nested(shape: tuple[int, ...], values: list) -> str:
    """Write the elements of a tensor with a bracket for each dimension."""
    if not shape:
        return str(values[0])
    step = len(values) // shape[0] if shape[0] else 0
    parts = [values[i * step : (i + 1) * step] for i in range(shape[0])]
    return "[" + ", ".join(_nested(shape[1:], part) for part in parts) + "]"
