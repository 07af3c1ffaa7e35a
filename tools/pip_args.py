"""Print what pip must be told for the CPU build of torch, where there is no GPU.

    python -m pip install $(python tools/pip_args.py) -r requirements.txt

PyPI's torch for Linux brings CUDA, several gigabytes that no CPU needs. So pip is asked
what it would take, with its own settings; where that is a build with CUDA, it is asked
again with PyTorch's index of CPU builds. Nothing is printed where there is a GPU, where
torch is installed, where pip takes a CPU build anyway (macOS, or an index of your own),
and where the index cannot be reached, which stderr says.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
NVIDIA = ("nvidia-smi", "/usr/lib/wsl/lib/nvidia-smi")
CUDA = re.compile(r"(nvidia|cuda|triton)\b")
PATIENCE = 60  # seconds for the answer of the driver
AT_ONCE = 10  # seconds in which an index that can be reached answers
UNREACHED = """\
torch will come with CUDA, several gigabytes: pip gets no CPU build from its own index,
and {index} cannot be reached."""


def main() -> None:
    """Print the arguments, or nothing."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cpu-index", default=CPU_INDEX, metavar="URL")
    index = parser.parse_args().cpu_index
    if has_torch() or has_gpu() or not any(map(CUDA.match, taken())):
        return
    arguments = [f"--extra-index-url={index}"]
    found = taken("--no-deps", "--retries=0", f"--timeout={AT_ONCE}", *arguments)
    if found.get("torch", "").endswith("+cpu"):
        print(*arguments)
    else:
        print(UNREACHED.format(index=index), file=sys.stderr)


def pinned() -> str:
    """Read which torch the course is pinned to, as in torch==2.13.0."""
    return re.search(r"^torch==\S+", (ROOT / "requirements.txt").read_text(), re.M)[0]


def has_torch() -> bool:
    """Tell whether the pinned torch is installed here, in whatever build."""
    try:
        return f"torch=={version('torch').partition('+')[0]}" == pinned()
    except PackageNotFoundError:
        return False


def has_gpu() -> bool:
    """Tell whether a driver of NVIDIA's lists a GPU."""
    for name in filter(shutil.which, NVIDIA):
        done = subprocess.run([name, "-L"], capture_output=True, timeout=PATIENCE)
        if done.returncode == 0 and done.stdout.strip():
            return True
    return False


def taken(*arguments: str) -> dict[str, str]:
    """Return what pip would install for torch: versions by name; {} if it cannot."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run"]
    command += ["--disable-pip-version-check"]
    command += ["--ignore-installed", "--report=-", *arguments, pinned()]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        return {}
    found = [item["metadata"] for item in json.loads(done.stdout)["install"]]
    return {one["name"]: one["version"] for one in found}


if __name__ == "__main__":
    main()
