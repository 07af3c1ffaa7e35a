"""Plots of measurements, with the prediction beside them and a twin in plain text."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from PIL import Image

from course_utils.pictures.colour import ink, rank_colour
from course_utils.pictures.draw import Bundle, bundle
from course_utils.text import aligned, show_bytes, show_seconds

DOTS_PER_INCH = 200  # twice what a notebook shows an inch with
DARK, GREY, LIGHT = "#222222", "#666666", "#dddddd"
SHADES = ("#222222", "#888888", "#b8b8b8")  # of what is not a rank
COLOURS = 64
FONT = {"fontfamily": "DejaVu Sans"}


@dataclass(frozen=True)
class Plot:
    """A drawn figure that Jupyter shows as PNG, with the plotted numbers as text."""

    figure: Figure
    text: str

    @cached_property
    def png(self) -> bytes:
        """Give the picture without metadata: the same bytes for the same numbers."""
        canvas = FigureCanvasAgg(self.figure)
        canvas.draw()
        size = canvas.get_width_height()
        image = Image.frombuffer("RGBA", size, canvas.buffer_rgba()).convert("RGB")
        file = io.BytesIO()
        image.quantize(COLOURS).save(file, "png", optimize=True)
        return file.getvalue()

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(
        self, include: object = None, exclude: object = None
    ) -> Bundle:
        return bundle(self.png, self.text)


def bars(
    measured: Mapping[str, Sequence[float]],
    predicted: Mapping[str, Sequence[float]],
    unit: str,
) -> Plot:
    """Draw a bar for each rank under each name, and the prediction as a black line.

    Both give a number for each rank, in rank order, under the same names.
    """
    figure, axes = _page(7.2, 0.7 + 0.62 * len(measured))
    height = 0.8 / max(map(len, measured.values()))
    for row, (name, values) in enumerate(measured.items()):
        for rank, value in enumerate(values):
            middle = row - 0.4 + height * (rank + 0.5)
            axes.barh(middle, value, 0.88 * height, color=rank_colour(rank))
            label = f" rank {rank}" if row == 0 else f" {rank}"
            most = max(value, predicted[name][rank])
            axes.text(most, middle, label, va="center", size=6.5, color=GREY, **FONT)
            ends = middle - height / 2, middle + height / 2
            axes.plot([predicted[name][rank]] * 2, ends, color=DARK, linewidth=1.6)
    axes.set_yticks(range(len(measured)), list(measured))
    axes.set_ylim(len(measured) - 0.4, -0.6)
    axes.grid(axis="x", color=LIGHT, linewidth=0.6)
    axes.set_xlabel(f"{unit}; bar: measured, black line: predicted", size=8, **FONT)
    rows = [
        (name, _numbers(values), _numbers(predicted[name]))
        for name, values in measured.items()
    ]
    heads = (unit, "measured, by rank", "predicted")
    return Plot(figure, aligned([heads, *rows]))


def _numbers(values: Sequence[float]) -> str:
    return "  ".join(f"{value:g}" for value in values)


def against_size(
    sizes: Sequence[float],
    measured: Sequence[float],
    predicted: Sequence[float],
    fitted: Sequence[bool],
) -> Plot:
    """Draw seconds over bytes, both logarithmic, and below them the residuals.

    fitted: whether the model was fitted to that size; the others are hollow.
    """
    figure, upper = _page(7.2, 4.6)
    upper.set_position((0.11, 0.42, 0.85, 0.53))
    lower = figure.add_axes((0.11, 0.11, 0.85, 0.22))
    _quiet(lower)
    upper.loglog(sizes, predicted, "-", color=GREY, label="predicted", base=2)
    residuals = [100 * (m / p - 1) for m, p in zip(measured, predicted, strict=True)]
    lower.axhline(0, color=GREY, linewidth=1)
    for kind in (True, False):
        at = [i for i, was in enumerate(fitted) if was == kind]
        fill = rank_colour(0) if kind else "white"
        name = "measured, fitted" if kind else "measured, not fitted"
        style = {"marker": "o", "linestyle": "", "markeredgecolor": rank_colour(0)}
        style |= {"markerfacecolor": fill, "markersize": 6}
        upper.plot(
            [sizes[i] for i in at], [measured[i] for i in at], label=name, **style
        )
        lower.plot([sizes[i] for i in at], [residuals[i] for i in at], **style)
    lower.set_xscale("log", base=2)
    for axes in (upper, lower):
        axes.set_xticks(sizes, [show_bytes(size) for size in sizes])
        axes.minorticks_off()
    upper.set_yscale("log", base=10)
    upper.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    upper.yaxis.set_major_formatter(lambda y, _: show_seconds(y))
    upper.yaxis.set_minor_formatter(NullFormatter())
    upper.legend(frameon=False, prop={"size": 8})
    lower.set_ylabel("off by, %", size=8, **FONT)
    lower.set_xlabel("bytes of one shard", size=8, **FONT)
    rows = [
        (show_bytes(s), show_seconds(m), show_seconds(p), f"{r:+.0f} %", _fit(f))
        for s, m, p, r, f in zip(
            sizes, measured, predicted, residuals, fitted, strict=True
        )
    ]
    heads = ("shard", "measured", "predicted", "off by", "")
    return Plot(figure, aligned([heads, *rows]))


def _fit(was: bool) -> str:
    return "fitted" if was else "not fitted"


def timeline(spans: Sequence[Sequence[tuple[str, float, float]]]) -> Plot:
    """Draw what every rank did when, from time stamps of one clock.

    spans: for each rank, (what, from, to) in seconds. Waiting, named "wait", is pale.
    """
    figure, axes = _page(7.2, 0.8 + 0.36 * len(spans))
    first = min(start for row in spans for _, start, _ in row)
    last = max(stop for row in spans for _, _, stop in row)
    for rank, row in enumerate(spans):
        colour = rank_colour(rank)
        for what, start, stop in row:
            waits = what == "wait"
            axes.barh(
                rank,
                stop - start,
                0.7,
                left=start - first,
                color="white" if waits else colour,
                edgecolor=colour if waits else "white",
                hatch="////" if waits else None,
            )
            style = {"ha": "center", "va": "center", "size": 8, **FONT}
            if stop - start > 0.08 * (last - first):
                if waits:
                    style["bbox"] = {"facecolor": "white", "linewidth": 0, "pad": 1}
                style["color"] = DARK if waits else ink(colour)
                axes.text((start + stop) / 2 - first, rank, what, **style)
            elif stop == row[-1][2]:  # too narrow for its name, but there is room
                style |= {"ha": "left", "color": DARK}
                axes.text(stop - first + 0.01 * (last - first), rank, what, **style)
    axes.set_xlim(0, 1.1 * (last - first))
    axes.set_yticks(range(len(spans)), [f"rank {rank}" for rank in range(len(spans))])
    axes.set_ylim(len(spans) - 0.5, -0.5)
    axes.set_xlabel("seconds since the first rank began", size=8, **FONT)
    rows = []
    for rank, row in enumerate(spans):
        told = (f"{what} {stop - start:.2f} s" for what, start, stop in row)
        rows.append((f"rank {rank}", ", ".join(told)))
    return Plot(figure, aligned(rows))


def against_ranks(
    world_sizes: Sequence[int],
    memory: Mapping[str, Sequence[float]],
    seconds: Mapping[str, Sequence[float]],
    budget: float,
) -> Plot:
    """Draw the predicted peak and time of ways over world sizes, and the budget.

    Ways whose times lie on one another share a line.
    """
    figure, left = _page(7.2, 3.2)
    left.set_position((0.11, 0.17, 0.36, 0.72))
    right = figure.add_axes((0.6, 0.17, 0.36, 0.72))
    _quiet(right)
    for i, (name, values) in enumerate(memory.items()):
        style = {"color": SHADES[i % len(SHADES)], "marker": "os^Dv"[i % 5]}
        left.loglog(world_sizes, values, label=name, **style)
        if (alike := _alike(name, seconds))[0] == name:
            label = "all of them" if alike == list(seconds) else ", ".join(alike)
            right.loglog(world_sizes, seconds[name], label=label, **style)
    left.axhline(budget, color=DARK, linewidth=1, linestyle="--")
    left.text(world_sizes[0], budget, "budget", size=7, va="bottom", **FONT)
    left.legend(frameon=False, prop={"size": 7})
    right.legend(frameon=False, prop={"size": 7})
    for axes, title, show in (
        (left, "peak of a rank, predicted", show_bytes),
        (right, "time, predicted", show_seconds),
    ):
        axes.set_title(title, size=9, loc="left", **FONT)
        axes.set_xscale("log", base=2)
        axes.set_xticks(world_sizes, [str(size) for size in world_sizes])
        axes.minorticks_off()
        axes.set_xlabel("ranks", size=8, **FONT)
        axes.yaxis.set_major_formatter(lambda y, _, show=show: show(y))
    left.set_yscale("log", base=2)
    left.yaxis.set_major_formatter(lambda y, _: show_bytes(y))
    rows = [
        (name, size, show_bytes(peak), show_seconds(time), _fits(peak, budget))
        for name, values in memory.items()
        for size, peak, time in zip(world_sizes, values, seconds[name], strict=True)
    ]
    return Plot(figure, aligned([("way", "ranks", "peak", "time", "fits"), *rows]))


def _alike(name: str, seconds: Mapping[str, Sequence[float]]) -> list[str]:
    """Return all names whose times are those of `name`, to 5 %."""
    mine = seconds[name]
    return [
        other
        for other, theirs in seconds.items()
        if all(abs(a / b - 1) < 0.05 for a, b in zip(mine, theirs, strict=True))
    ]


def _fits(peak: float, budget: float) -> str:
    return "yes" if peak <= budget else "no"


def _page(width: float, height: float) -> tuple[Figure, Axes]:
    """Return a white figure of that many inches, and axes that leave room for names."""
    figure = Figure((width, height), dpi=DOTS_PER_INCH, facecolor="white")
    bottom, top = 0.5 / height, 1 - 0.1 / height
    axes = figure.add_axes((0.2, bottom, 0.74, top - bottom))
    _quiet(axes)
    return figure, axes


def _quiet(axes: Axes) -> None:
    """Take away what is not data."""
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GREY)
    axes.tick_params(colors=DARK, labelsize=7.5, labelfontfamily="DejaVu Sans")
