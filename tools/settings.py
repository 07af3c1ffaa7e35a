"""Put the course's settings of Jupyter and IPython into this Python's environment."""

import shutil
import sys
from pathlib import Path

ETC = Path(__file__).resolve().parents[1] / "etc"
PLACES = {  # from etc/ to the environment
    "ipython_kernel_config.py": "etc/ipython",
    "jupyter_nbconvert_config.json": "etc/jupyter",
    "jupyter_server_config.json": "etc/jupyter",
    "labextension": "share/jupyter/labextensions/course-utils-pictures",
}


def main() -> None:
    """Copy every setting to its place below sys.prefix."""
    for name, place in PLACES.items():
        target = Path(sys.prefix, place)
        if (ETC / name).is_dir():
            shutil.copytree(ETC / name, target, dirs_exist_ok=True)
        else:
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy(ETC / name, target)


if __name__ == "__main__":
    main()
