"""One colour for each rank, and text that can be read on it."""

PETROFF6 = ("#5790fc", "#f89c20", "#e42536", "#964a8b", "#9c9ca1", "#7a21dd")


def rank_colour(rank: int) -> str:
    """Give the colour of a rank, as `#rrggbb`: the same in every picture and plot.

    Ranks 0 to 5 have matplotlib's petroff6, the set with the largest distances
    under all three colour-vision simulations.  Ranks 6 to 11 have it mixed with
    60 % white, 12 to 17 with 55 % black: lightness is what every reader sees.
    Then the colours repeat, so show the rank's number beside its colour.
    Raises ValueError for a negative rank.
    """
    if rank < 0:
        raise ValueError(f"expected a rank from 0 upwards, got {rank}")
    towards, share = ((255, 0.0), (255, 0.6), (0, 0.55))[rank // 6 % 3]
    mixed = (
        round(channel * (1 - share) + towards * share)
        for channel in bytes.fromhex(PETROFF6[rank % 6][1:])
    )
    return "#" + bytes(mixed).hex()


def ink(colour: str) -> str:
    """Choose black or white text, whichever has the larger contrast (WCAG 2)."""
    return max("#000000", "#ffffff", key=lambda text: contrast(colour, text))


def contrast(one: str, other: str) -> float:
    """Give the contrast of two colours by WCAG 2: from 1 to 21, 4.5 is readable."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    linear = (
        share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4
        for share in (channel / 255 for channel in bytes.fromhex(colour[1:]))
    )
    weights = (0.2126, 0.7152, 0.0722)
    return sum(weight * part for weight, part in zip(weights, linear, strict=True))
