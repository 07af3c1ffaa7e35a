"""■ and Ctrl-C: whatever they reach, they end it in a few lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Stopped(KeyboardInterrupt):
    """Something was stopped by hand. A notebook shows its text alone."""

    def _render_traceback_(self) -> list[str]:
        return str(self).splitlines()


@contextmanager
def stoppable(what: str, then: str = "") -> Iterator[None]:
    """Turn an interrupt in a ``with`` block into one short line.

    what: that was stopped; then: how things are now.
    """
    try:
        yield
    except Stopped:
        raise
    except KeyboardInterrupt:
        text = f"stopped by hand: {what}"
        raise Stopped(f"{text}; {then}" if then else text) from None
