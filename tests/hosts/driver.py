"""Run cells that come as lines of JSON, as a notebook's kernel on `login` does."""

from __future__ import annotations

import json
import os
import sys
import traceback
from types import ModuleType

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config


def main() -> None:
    """Answer each line with what its cell printed, its value, and its error.

    The first argument is the folder to work in.
    """
    os.chdir(sys.argv[1])
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # nothing else may write to the replies
    shell = InteractiveShell.instance(
        config=Config(HistoryManager={"enabled": False}),
        colors="nocolor",
        user_module=ModuleType("cells"),
    )
    shell.autoawait = False
    print(json.dumps({"pid": os.getpid()}), file=replies, flush=True)
    for line in sys.stdin:
        with capture_output() as said:
            ran = shell.run_cell(json.loads(line))
        error = ran.error_before_exec or ran.error_in_exec
        if error is not None:
            print("".join(traceback.format_exception(error)), file=sys.stderr)
        reply = {
            "printed": said.stdout,
            "warned": said.stderr,
            "value": repr(ran.result),
            "error": "" if error is None else f"{type(error).__name__}: {error}",
        }
        print(json.dumps(reply), file=replies, flush=True)


if __name__ == "__main__":
    main()
