"""Write the `%%px` cells of a lesson as one script that runs under torchrun."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from course_utils.export.script import (
    FAILS,
    INDENT,
    PX,
    Cell,
    NotForScripts,
    World,
    comment,
    launched,
    names_only,
    rank_code,
)

HEAD = '''\
"""The ranks' part of {name}.

    torchrun --nproc-per-node={world_size} {stem}.py

Written by `python -m course_utils export`. It prints on every rank what the notebook
shows for that rank; what only makes sense in a notebook is left out, with a comment.
"""

import os
import socket
import sys

import torch.distributed as dist

try:
    from IPython.lib.pretty import pretty  # writes values as a notebook does
except ImportError:
    pretty = repr

RANK = int(os.environ.get("RANK", -1))
STARTED = int(os.environ.get("WORLD_SIZE", 0))
if STARTED < {world_size}:
    sys.exit("start {world_size} processes: torchrun --nproc-per-node={world_size} …")
if RANK >= {world_size}:
    sys.exit()  # the lesson needs no more ranks
if int(os.environ.get("LOCAL_WORLD_SIZE", STARTED)) < STARTED:  # on several hosts
    try:
        own = socket.gethostbyname(socket.gethostname())  # where gloo would listen
    except OSError:
        own = "127.0.0.1"
    if own.startswith("127.") and not os.environ.get("GLOO_SOCKET_IFNAME"):
        sys.exit(f"no other host reaches {{own}}: export GLOO_SOCKET_IFNAME=eth0, the "
                 "network between your hosts (`ip -brief address` names it)")
for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"):  # where more processes were started
    os.environ[name] = str(min(int(os.environ[name]), {world_size}))


def show(value):
    """Print the value of a cell's last line, as a notebook does."""
    if value is not None:
        print(pretty(value))
'''

NEXT = '''

STORE, _, _ = next(dist.rendezvous("env://"))  # torchrun's, where the ranks meet


def next_cell(name):
    """Wait for all ranks: a cell begins when the one before has ended everywhere."""
    sys.stdout.flush()
    if STORE.add(name, 1) == {world_size}:
        STORE.set(f"{{name}}: all", "")
    STORE.wait([f"{{name}}: all"])
'''

BY_HAND = """\


# The lesson opens a store at MASTER_PORT, where torchrun's listens: take another port.
if RANK == 0:
    with socket.create_server((os.environ["MASTER_ADDR"], 0)) as free:
        STORE.set("port", str(free.getsockname()[1]))
os.environ["MASTER_PORT"] = STORE.get("port").decode()
os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "False"
"""

LEAVE = """\
if dist.is_initialized():
    dist.destroy_process_group()
"""


def read(path: Path) -> list[dict]:
    """Return the cells of a notebook.

    Raises ValueError, saying what was expected, for anything else.
    """
    if not path.is_file():
        what = "a folder" if path.is_dir() else "not there"
        raise ValueError(f"expected a notebook, but {path} is {what}")
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        cells = notebook["cells"]
        for cell in cells:
            cell["source"] = "".join(cell["source"])
            cell["cell_type"], cell["metadata"]
    except (ValueError, KeyError, TypeError):
        raise ValueError(
            f"expected a Jupyter notebook (.ipynb, format 4), but {path} cannot be "
            "read as one"
        ) from None
    if not any(is_code(c) and PX.match(c["source"]) for c in cells):
        raise ValueError(
            f"{path} has no %%px cell, so nothing in it runs on the ranks: name a "
            "lesson, as in notebooks/03_gather_equal_shards.ipynb"
        )
    return cells


def is_code(cell: dict) -> bool:
    """Tell whether a cell holds code."""
    return cell["cell_type"] == "code"


def script_of(cells: list[dict], name: str, mark: bool = False) -> str:
    """Return the script for the cells of the notebook of that name.

    mark: print the name of each cell before it runs.
    """
    worlds = list(all_worlds(cells))
    first = worlds[0] if worlds else World()
    by_hand = any(not world.init for world in worlds)
    stem = Path(name).stem
    head = HEAD.format(name=name, stem=stem, world_size=first.world_size)
    wait = NEXT.format(world_size=first.world_size)
    if mark:
        wait = wait.replace("    sys.stdout", '    print("#", name)\n    sys.stdout')
    parts = [head + wait + (BY_HAND if by_hand else "")]
    parts += body(cells, first)
    return "\n\n".join(parts) + f'\n\nnext_cell("end of the lesson")\n{LEAVE}'


def all_worlds(cells: list[dict]) -> Iterator[World]:
    """Yield what the calls of `launch` ask for."""
    for cell in filter(is_code, cells):
        try:
            world = launched(cell["source"])
        except NotForScripts:
            continue
        if world is not None:
            yield world


def body(cells: list[dict], first: World) -> Iterator[str]:
    """Yield the script's parts: headings, cells, and why some are left out."""
    here: World | None = first
    begun = False
    for number, raw in enumerate(cells):
        if not is_code(raw):
            yield from headings(raw["source"])
            continue
        cell = cell_of(raw, number)
        if not cell.on_ranks:
            code, here = client_part(cell, here, first, begun)
            begun = begun or here is not None
            yield code
        elif here is None:
            yield left_out(cell, "the notebook has another world here")
        else:
            yield rank_part(cell)


def headings(text: str) -> Iterator[str]:
    """Yield the headings of a Markdown cell as comments."""
    for line in text.split("\n"):
        if line.startswith("#"):
            yield comment(line.lstrip("# "))


def cell_of(raw: dict, number: int) -> Cell:
    """Read one code cell."""
    outputs = raw.get("outputs", [])
    return Cell(
        name=raw.get("id", f"cell {number}"),
        source=raw["source"].strip("\n"),
        fails=FAILS in raw["metadata"].get("tags", []),
        report="\n".join(o.get("evalue", "") for o in outputs),
        quiet=raw.get("execution_count") is not None and not outputs,
    )


def rank_part(cell: Cell) -> str:
    """Return a cell of the ranks as a part of the script."""
    from course_utils.text import parse_ranks

    try:
        code = rank_code(cell, lambda text: parse_ranks(text, 2**16))
    except NotForScripts as reason:
        names = names_only(cell)
        return "\n".join(filter(None, [left_out(cell, str(reason)), names]))
    return f'next_cell("{cell.name}")\n{code}'


def client_part(
    cell: Cell, here: World | None, first: World, begun: bool
) -> tuple[str, World | None]:
    """Return what stands for a cell of the notebook's own process, and the world.

    The world is None where the script has none like it.
    """
    try:
        world = launched(cell.source)
    except NotForScripts as reason:
        return left_out(cell, str(reason)), None
    if world is None:
        gone = ".shrink(" in cell.source
        why = "it runs in the notebook's own process"
        return left_out(cell, why), None if gone else here
    if world.world_size != first.world_size:
        why = f"the script runs {first.world_size} ranks"
        return left_out(cell, why), None
    return start(cell, world, begun), world


def start(cell: Cell, world: World, begun: bool) -> str:
    """Return what `launch` does, for ranks that torchrun has started."""
    lines = [left_out(cell, "torchrun has started the ranks")]
    if begun:
        lines += [f'next_cell("{cell.name}")', LEAVE.rstrip("\n")]
    if world.init and begun:  # under the old keys, the old addresses are found
        lines += [
            f'store = dist.PrefixStore("{cell.name}", STORE)',
            "dist.init_process_group(",
            f'    "{world.backend}",',
            f"    store=store, rank=RANK, world_size={world.world_size},",
            ")",
        ]
    elif world.init:
        lines.append(f'dist.init_process_group("{world.backend}")')
    return "\n".join(lines)


def left_out(cell: Cell, why: str) -> str:
    """Return a comment in place of a cell."""
    text = f"Cell {cell.name} is left out: {why}.\n"
    return comment(text + "\n".join(INDENT + row for row in cell.source.split("\n")))


def export_command(commands: argparse._SubParsersAction) -> None:
    """Add the command `export`."""
    parser = commands.add_parser(
        "export",
        help="write a lesson's %%%%px cells as a script for torchrun",
        description="Write the %%px cells of a notebook as a script for torchrun.",
    )
    parser.add_argument("notebook", type=Path, help="a lesson: notebooks/03_….ipynb")
    parser.add_argument("-o", "--output", type=Path, help="default: here, as NAME.py")
    parser.add_argument("--force", action="store_true", help="replace a script")
    parser.add_argument("--mark", action="store_true", help="print each cell's name")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Write the script; return the exit status."""
    cells = read(options.notebook)
    output = options.output or Path(options.notebook.with_suffix(".py").name)
    if output.exists() and not options.force:
        raise ValueError(f"{output} is already there: --force replaces it, -o renames")
    text = script_of(cells, options.notebook.name, options.mark)
    output.write_text(text, encoding="utf-8")
    worlds = list(all_worlds(cells)) or [World()]
    print(f"torchrun --nproc-per-node={worlds[0].world_size} {output}")
    return 0
