#!/bin/sh
# Try the course on GPUs: one table of what works. Please send it to us.
#
#   tools/try_gpus.sh                    a rank for each GPU of this machine
#   tools/try_gpus.sh --hosts a:8 b:8    ranks on several hosts, over ssh
#
# Without a GPU it is a dry run: two ranks on CPUs, over gloo.
set -eu
cd "$(dirname "$0")/.."
python=.venv/bin/python
[ -x "$python" ] || python=python3
PYTHONPATH="$PWD" exec "$python" tools/try_gpus.py "$@"
