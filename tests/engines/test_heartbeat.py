"""What is far away ends when its controller falls silent."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress

import psutil

from course_utils.engines.heartbeat import CONNECTION

WAIT = 60  # seconds
ENGINE = """
import subprocess, sys, time
from course_utils.engines.heartbeat import end_with_controller
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
nanny = subprocess.Popen(sleep, start_new_session=True, stdout=subprocess.DEVNULL)
print(nanny.pid, flush=True)
end_with_controller(0.2)
time.sleep(600)
"""
NOBODY = {"interface": "tcp://127.0.0.1", "location": "127.0.0.1", "hb_ping": 9}


def test_what_an_engine_has_started_ends_with_it():
    engine = subprocess.Popen(
        [sys.executable, "-c", ENGINE],
        env=os.environ | {CONNECTION: json.dumps(NOBODY)},
        start_new_session=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    nanny = psutil.Process(int(engine.stdout.readline()))
    try:
        assert engine.wait(WAIT) == -signal.SIGKILL
        nanny.wait(WAIT)
    finally:
        engine.kill()
        with suppress(psutil.NoSuchProcess):
            nanny.kill()
        engine.communicate()
