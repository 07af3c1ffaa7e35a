"""Bytes, rates and seconds as people write them."""

from __future__ import annotations

import re
from collections.abc import Mapping

BYTES = {"B": 1} | {
    f"{prefix}{unit}": base ** (power + 1)
    for unit, base in (("B", 1000), ("iB", 1024))
    for power, prefix in enumerate("kMGT" if unit == "B" else "KMGT")
}
RATES = {f"{unit}/s": factor for unit, factor in BYTES.items()} | {
    f"{prefix}bit/s": 1000 ** (power + 1) / 8 for power, prefix in enumerate("kMGT")
}
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*(\S*)", re.I)


def bytes_of(text: str, name: str) -> int:
    """Read a number of bytes above 0, as in "64MiB"; raise ValueError naming `name`."""
    return round(_read(text, name, BYTES, "a size such as 64MiB or 1.5GB"))


def rate_of(text: str, name: str) -> float:
    """Read bytes a second, as in "25GB/s" or "200Gbit/s"."""
    return _read(text, name, RATES, "a rate such as 25GB/s or 200Gbit/s")


def seconds_of(text: str, name: str) -> float:
    """Read seconds above 0, as in "5us"."""
    return _read(text, name, SECONDS, "a time such as 5us or 0.1ms")


def seconds(text: str) -> float:
    """Read a plain number of seconds above 0; argparse says so of anything else."""
    number = float(text)
    if not 0 < number < float("inf"):
        raise ValueError(f"expected seconds above 0, got {text}")
    return number


def _read(text: str, name: str, units: Mapping[str, float], accepted: str) -> float:
    """Read a positive number with one of the units."""
    found = NUMBER.fullmatch(text.strip())
    known = {unit.lower(): factor for unit, factor in units.items()}
    if found is None or found[2].lower() not in known:
        raise ValueError(
            f"{name}: expected {accepted} (units: {', '.join(units)}), got {text!r}"
        )
    value = float(found[1]) * known[found[2].lower()]
    if not 0 < value < float("inf") or (units is BYTES and round(value) < 1):
        raise ValueError(f"{name}: expected {accepted}, above 0, got {text!r}")
    return value


def show_bytes(count: float) -> str:
    """Write bytes with a binary unit, as in "16.0 GiB"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def show_seconds(seconds: float) -> str:
    """Write seconds with three digits, as in "12.5 ms"."""
    if seconds >= 100:
        return f"{seconds:.0f} s"
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
