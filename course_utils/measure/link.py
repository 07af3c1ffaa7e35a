"""Latency and bandwidth: fitted to measurements, and used to predict."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Link:
    """What a message costs: seconds to start it, and bytes a second from then on."""

    latency: float
    bandwidth: float

    def seconds(self, steps: float, volume: float) -> float:
        """Return what `steps` messages with `volume` bytes in all take in turn."""
        return steps * self.latency + volume / self.bandwidth


@dataclass(frozen=True)
class Fit:
    """A link fitted to measurements.

    residuals: measured over predicted, minus 1, in the order of the points.
    """

    link: Link
    residuals: tuple[float, ...]

    @property
    def worst(self) -> float:
        """Return the largest residual, without its sign."""
        return max(map(abs, self.residuals))


def fit(points: Iterable[tuple[float, float, float]]) -> Fit:
    """Fit latency and bandwidth to points (steps, volume, seconds), by least squares.

    The relative errors are squared, so that 1 KiB counts as much as 64 MiB. Neither
    parameter can become negative: where the best would be, it is 0 (latency) or
    infinite (bandwidth). Raises ValueError for fewer than two different points.
    """
    points = list(points)
    rows = [(s / t, v / t) for s, v, t in points if t > 0]
    ss, sv, vv = (sum(r[i] * r[j] for r in rows) for i, j in ((0, 0), (0, 1), (1, 1)))
    s, v = (sum(r[i] for r in rows) for i in (0, 1))
    determinant = ss * vv - sv * sv
    if len(rows) < len(points) or determinant <= 1e-12 * ss * vv:
        raise ValueError(
            "fit: expected two sizes or more, with seconds above 0, got "
            f"{len({p[:2] for p in points})} different ones among {len(points)} points"
        )
    latency = (s * vv - v * sv) / determinant
    inverse = (v * ss - s * sv) / determinant
    if latency < 0:
        latency, inverse = 0.0, v / vv
    elif inverse <= 0:
        latency, inverse = s / ss, 0.0
    link = Link(latency, 1 / inverse if inverse else float("inf"))
    return Fit(link, tuple(t / link.seconds(a, b) - 1 for a, b, t in points))


def algorithm_bandwidth(full_bytes: float, seconds: float) -> float:
    """Return bytes of the whole result a second, as nccl-tests' algbw.

    Source: https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
    """
    return full_bytes / seconds


def bus_bandwidth(
    operation: str, world_size: int, full_bytes: float, seconds: float
) -> float:
    """Return nccl-tests' busbw: what a link carries, comparable between world sizes.

    It is algbw × (W−1)/W for all_gather, gather and scatter, and algbw for broadcast.
    Source: as for `algorithm_bandwidth`.
    """
    factors = dict.fromkeys(
        ("all_gather", "gather", "scatter"), (world_size - 1) / world_size
    ) | {"broadcast": 1.0}
    if operation not in factors:
        raise ValueError(
            f"operation: expected one of {', '.join(factors)}, got {operation!r}"
        )
    return algorithm_bandwidth(full_bytes, seconds) * factors[operation]
