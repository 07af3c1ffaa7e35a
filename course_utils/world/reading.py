"""Read, assign and draw the variables of the ranks, from the notebook."""

from __future__ import annotations

import inspect
import keyword
import linecache
from typing import TYPE_CHECKING

from course_utils.text import NoSuchVariable, aligned, these_ranks
from course_utils.world.rank import whereabouts
from course_utils.world.variables import pull, push, snapshots

if TYPE_CHECKING:
    from course_utils.pictures import Picture
    from course_utils.world.world import World


def fetch(world: World, name: str) -> list:
    """Return every rank's variable; raise NameError naming the ranks without it."""
    held = world.run_all(pull, checked_name(name))
    missing = [rank for rank, (found, _) in enumerate(held) if not found]
    if missing:
        raise NoSuchVariable(
            f"{these_ranks(missing)} of {len(world)} "
            f"{'have' if len(missing) > 1 else 'has'} no variable {name!r}: "
            "assign it in a %%px cell first"
        )
    return [value for _, value in held]


def assign(world: World, name: str, value: object) -> None:
    """Assign a variable of every rank."""
    world.run_all(push, checked_name(name), value)


def picture_of(world: World, names: tuple[str, ...]) -> Picture:
    """Draw variables of the ranks, coloured by the rank they came from."""
    from course_utils.pictures import picture  # matplotlib, which few cells need

    if not names:
        raise TypeError('show expects names of variables, as in show("shard")')
    names = tuple(checked_name(name) for name in names)
    seen = world.run_all(snapshots, names)
    by_name = dict(zip(names, map(list, zip(*seen, strict=True)), strict=True))
    unknown = [n for n, held in by_name.items() if all(h is None for h in held)]
    if unknown:
        raise NoSuchVariable(f"no rank has a variable {' or '.join(unknown)} to show")
    return picture(by_name)


def source_of(function: object) -> str:
    """Return the text of the file or cell in which a function stands; "" if unknown."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return "".join(linecache.getlines(code.co_filename)) if code else ""


def places_of(world: World) -> Table:
    """Return a table of where each rank runs: pid, host, local rank, device."""
    rows = world.run_all(whereabouts)
    return Table(
        ("rank", *rows[0]), [(rank, *row.values()) for rank, row in enumerate(rows)]
    )


class Table:
    """Rows under headings, shown as text."""

    def __init__(self, headings: tuple[str, ...], rows: list[tuple]) -> None:
        self.headings, self.rows = headings, rows

    def __repr__(self) -> str:
        return aligned([self.headings, *self.rows])


def checked_name(name: object) -> str:
    """Return `name` if it can be a variable's; raise TypeError if it cannot."""
    if isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name):
        return name
    raise TypeError(
        f'expected the name of a variable on the ranks, as in ranks["x"], got {name!r}'
    )
