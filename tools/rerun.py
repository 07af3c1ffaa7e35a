"""Execute the notebooks and store their outputs, or compare them (--check).

    python tools/rerun.py                            every lesson and its solutions
    python tools/rerun.py notebooks/03_*.ipynb       those named
    python tools/rerun.py --check                    compare, write nothing
    python tools/rerun.py --check --keep FOLDER      and store there what differs

A stored notebook holds nothing that differs between two runs or two machines, except
the outputs of the cells tagged nbval-ignore-output.
"""

import argparse
import copy
import difflib
import json
import os
import re
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from traitlets.config import Config

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("notebooks", "notebooks/solutions")
IGNORE = "nbval-ignore-output"
METADATA = {
    "kernelspec": {
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
        "name": "python3",
    },
    "language_info": {
        "file_extension": ".py",
        "name": "python",
        "pygments_lexer": "ipython3",
    },
}
DIFF_LINES = 20
DIFF_COLUMNS = 120
ERROR_LINES = 20


def execute(notebook: NotebookNode, folder: Path, limit: float) -> NotebookNode:
    """Return `notebook` executed, as `run` does."""
    executed = copy.deepcopy(notebook)
    run(executed, folder, limit)
    return executed


def run(notebook: NotebookNode, folder: Path, limit: float) -> None:
    """Execute `notebook` in `folder`, in place, with `limit` seconds for each cell.

    Raises CellExecutionError for an error in a cell without the tag raises-exception,
    CellTimeoutError and DeadKernelError. The kernel has ended in every case. One that
    loses a port to another program before it listens there is started again.
    """
    for left in (2, 1, 0):
        try:
            return _run_once(notebook, folder, limit)
        except DeadKernelError:
            raise
        except RuntimeError as error:  # of the start
            if "died" not in str(error) or not left:
                raise


def _run_once(notebook: NotebookNode, folder: Path, limit: float) -> None:
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=limit,
        record_timing=False,
        coalesce_streams=True,
        store_widget_state=False,
        resources={"metadata": {"path": str(folder)}},
        config=Config(KernelManager={"transport_encryption": "auto"}),
    )
    client.execute()


def normalise(notebook: NotebookNode) -> NotebookNode:
    """Return `notebook` without what differs from one run or editor to the next."""
    result = copy.deepcopy(notebook)
    result.metadata = nbformat.from_dict(METADATA)
    result.nbformat, result.nbformat_minor = 4, 5
    count = 0
    for index, cell in enumerate(result.cells):
        cell.setdefault("id", f"cell-{index}")
        tags = cell.metadata.get("tags")
        cell.metadata = nbformat.from_dict({"tags": tags} if tags else {})
        if cell.cell_type == "code":
            count += bool(cell.source.strip())
            _number(cell, count if cell.source.strip() else None)
    return result


def _number(cell: NotebookNode, count: int | None) -> None:
    """Give a code cell and its result the execution count `count`."""
    cell.execution_count = count
    for output in cell.outputs:
        output.pop("transient", None)
        if output.output_type == "execute_result":
            output.execution_count = count


def text_of(notebook: NotebookNode) -> str:
    """Return the notebook as the text of its file: sorted keys, one newline at the end.

    Raises nbformat.ValidationError where the notebook is not valid.
    """
    nbformat.validate(notebook)
    return nbformat.writes(notebook).rstrip("\n") + "\n"


def differences(stored: NotebookNode, executed: NotebookNode) -> list[str]:
    """Return one text for each cell that differs; ignored outputs are left out."""
    found = []
    for index, (old, new) in enumerate(zip(stored.cells, executed.cells, strict=True)):
        if IGNORE in new.metadata.get("tags", []):
            old, new = {**old, "outputs": []}, {**new, "outputs": []}
        if old != new:
            found.append(f"cell {index} ({new['id']})\n{_diff(old, new)}")
    outside = [
        {key: value for key, value in notebook.items() if key != "cells"}
        for notebook in (stored, executed)
    ]
    if outside[0] != outside[1]:
        found.append(f"notebook metadata\n{_diff(*outside)}")
    return found


def _diff(old: dict, new: dict) -> str:
    """Return a short diff of the two, as the lines of the notebook file."""
    texts = [json.dumps(side, indent=1, sort_keys=True) for side in (old, new)]
    lines = [text.replace("\\n", "\n").splitlines() for text in texts]
    diff = list(difflib.unified_diff(*lines, "stored", "executed", n=0, lineterm=""))
    short = [line[:DIFF_COLUMNS] for line in diff[2 : 2 + DIFF_LINES]]
    more = len(diff) - 2 - DIFF_LINES
    return "\n".join([*short, f"({more} more lines)"] if more > 0 else short)


def rerun(path: Path, check: bool, limit: float, keep: Path | None) -> list[str]:
    """Execute the notebook at `path` and store it; return what went wrong, or differs.

    With `check` nothing is written there. keep: a folder for a notebook that went
    wrong or differs, as far as it ran.
    """
    text = path.read_text(encoding="utf-8")
    stored = nbformat.reads(text, as_version=4)
    executed = normalise(stored)
    try:
        run(executed, path.parent, limit)
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        found = [f"stopped: {_short(str(error))}"]
    else:
        found = compared(path, text, normalise(executed), check)
    if found and keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        nbformat.write(executed, keep / path.name)
    return found


def compared(path: Path, text: str, executed: NotebookNode, check: bool) -> list[str]:
    """Store an executed notebook, or, with `check`, return where it differs."""
    stored = nbformat.reads(text, as_version=4)
    if not check:
        path.write_text(text_of(executed), encoding="utf-8")
        return []
    found = differences(stored, executed)
    if not found and text_of(stored) != text:
        found.append("the file is not written as `make rerun` writes it")
    return found


def _short(error: str) -> str:
    """Return the beginning and the end of an error, without colours."""
    lines = re.sub(r"\x1b\[[0-9;]*m", "", error).strip().splitlines()
    if len(lines) > ERROR_LINES:
        half = ERROR_LINES // 2
        lines = [*lines[:half], "(…)", *lines[-half:]]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Execute the notebooks named in `arguments`; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebooks", nargs="*", type=Path, help="default: all of them")
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument("--cell-limit", type=float, default=120, metavar="SECONDS")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="store there what went wrong"
    )
    options = parser.parse_args(arguments)
    paths = options.notebooks or [
        path for folder in FOLDERS for path in sorted((ROOT / folder).glob("*.ipynb"))
    ]
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        os.environ["IPYTHONDIR"] = folder  # nobody's start-up files or history
        for path in paths:
            found = rerun(path, options.check, options.cell_limit, options.keep)
            bad += bool(found)
            good = "same" if options.check else "stored"
            verdict = "not " + good if found else good
            print("\n".join([f"{path.name}: {verdict}", *found]), flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
