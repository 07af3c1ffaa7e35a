"""The thread that watches on each rank, and what it does about what it learns."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from course_utils.stuck import having, sequences
from course_utils.watched import meeting as meetings
from course_utils.watched.board import Board
from course_utils.watched.leaving import Leaving
from course_utils.watched.lookout import Lookout
from course_utils.watched.options import Options
from course_utils.watched.page import Page
from course_utils.watched.verdict import SURE, Observed, Suspicion
from course_utils.watched.words import name_of, of_failure, of_stuck

JUDGES = 8  # ranks that read what all ranks tell, at one time
PERIOD = 0.25  # seconds between looks
SETTLE = 0.6  # seconds in which the others are seen to wait, after an error
GONE = ("finished", "died")  # these write no report any more
REASON = 10.0  # seconds in which the reason for a broken connection has to come


class Sentry:
    """Watch this rank, tell the others, and heed what they tell."""

    def __init__(self, options: Options, page: Page | None = None) -> None:
        self.options, self.page = options, page
        self.meeting = meetings.of_environment()
        self.board: Board | None = None
        self._lookout = Lookout()
        self._observed: Observed | None = None
        self._suspicion: Suspicion | None = None
        self._leaving = Leaving(options)
        self._early = max(options.patience - SURE, options.patience / 2)
        self._told: dict[str, Any] = {}
        self._last: dict[str, Any] | None = None  # the state of a rank that has ended
        self._beat = 0
        self._begun: dict[str, int] = {}
        self._reported = ""
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watched", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._told = {"kind": "runs", "waited": 0, "beat": 0}
        self._note()
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(PERIOD if self._beat else 0):
            try:
                with self._lock:
                    self._once()
            except RuntimeError:  # the store is gone; perhaps another one comes
                self.board = None

    def _stop(self) -> None:
        """Stop watching: a thread that is in C++ when Python ends would abort it."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(2 * SETTLE)

    def _once(self) -> None:
        if self.board is None:
            self._join()
        state = self._last or self._lookout.look()
        self._tell(state)
        if self.board is None:
            return
        for what in self.board.news():
            self._heed(what)
        if state["kind"] == "waits" and state["waited"] > self._early:
            turns = -(-self.board.world_size // JUDGES)
            if (self._beat + self.board.rank) % turns == 0:
                self._judge()

    def _join(self) -> None:
        """Go to the store where the ranks meet, once there is one."""
        at = self.meeting or meetings.of_group()
        if at is None or at.world_size < 2 or at.rank < 0:
            return
        store = at.store()
        if store is not None:
            self.meeting, self._lookout.port = at, at.port
            self.board = Board(store, at.rank, at.world_size)
            self._observed = Observed(at.world_size)

    def _tell(self, state: dict[str, Any]) -> None:
        self._beat += 1
        about = {"pid": os.getpid(), "host": socket.gethostname()}
        self._told = {**state, **about, "beat": self._beat}
        self._note()
        if self.board is not None:
            self.board.tell(self._told)

    def _note(self) -> None:
        """Leave what the process above needs, should this one end now."""
        if self.page is not None:
            at = self.meeting.written() if self.meeting else ""
            said = bool(self._reported)
            self.page.write({"meeting": at, "told": self._told, "reported": said})

    def remember(self) -> None:
        """Keep the sequence numbers of groups that are about to be destroyed."""
        self._begun.update(sequences())

    def meet(self, at: meetings.Meeting | None) -> None:
        """Take the store of a process group that is about to be initialised."""
        if at is not None and at.rank >= 0 and at != self.meeting:
            with self._lock:
                self.meeting, self.board = at, None

    def _judge(self) -> None:
        """Find out whether this rank waits in vain; if so, say it to all.

        Twice, and every rank concerned has looked again meanwhile: what one of them
        told first may have been over when another told that it had finished.
        """
        self._observed.update(self.board.everyone())
        seen = self._observed.suspicion(self._early)
        if self.board.rank not in seen.stuck:
            self._suspicion = None
        elif self._suspicion is None or not self._suspicion.confirmed(seen):
            if self._suspicion is None or not self._suspicion.same(seen):
                self._suspicion = seen
        else:
            self._publish(of_stuck(self._observed.states(), self.options.patience))

    def _publish(self, text: str) -> None:
        """Announce a report, unless it was, or another rank is about to."""
        if text == self._reported:
            return
        if self.board.claim(name_of(text)):
            self.board.announce({"text": text})
        limit = time.monotonic() + SETTLE
        while not self._reported and time.monotonic() < limit:
            for what in self.board.news():
                self._heed(what)
            time.sleep(PERIOD / 10)

    def _heed(self, what: dict[str, Any]) -> None:
        """Write a report that concerns all, and go the way that was chosen."""
        if what["text"] != self._reported:
            self._reported = what["text"]
            self._note()
            self._leaving.write(what["text"])
            self.board.acknowledge(name_of(what["text"]))
            self._leaving.go(self._others_wrote())

    def _others_wrote(self) -> Callable[[], bool]:
        """Return a function that tells whether all ranks that can have written it."""
        told = self.board.everyone().values()
        able = self.board.world_size - sum(state["kind"] in GONE for state in told)
        name = name_of(self._reported)
        return lambda: self.board.acknowledged(name) >= able

    def finish(self) -> None:
        """Tell that the script has ended well on this rank."""
        here = os.getpid() == self._pid  # and not in a process that the script forked
        if here and self._last is None:
            self._end({"kind": "finished"})
            self._stop()

    def _end(self, state: dict[str, Any]) -> None:
        with self._lock:
            begun = {**self._begun, **sequences()}
            self._last = {"waited": 0, "begun": begun, **state}
            try:
                if self.board is None:
                    self._join()
                self._tell(self._last)
            except RuntimeError:
                self.board = None

    def fail(self, block: str, state: dict[str, Any], broken: bool) -> None:
        """Tell that the script has ended with an error, and report it with the others.

        state: where the error came from; broken: the connections to other ranks
        broke, or a collective timed out, so the reason is elsewhere.
        """
        if os.getpid() != self._pid:
            return
        kind = "waits" if broken and state["call"] else "failed"
        self._leaving.by_itself = True
        self._end({**state, "kind": kind, "error": block})
        try:
            if self.board is not None:
                self._report(block, kind == "waits")
        except RuntimeError:  # the store is gone
            pass
        self._stop()

    def _report(self, block: str, broken: bool) -> None:
        begun, limit = time.monotonic(), REASON if broken else SETTLE
        while time.monotonic() - begun < limit:
            time.sleep(PERIOD / 2)
            with self._lock:
                if self._reported:
                    return
                self._observed.update(self.board.everyone())
            settled = time.monotonic() - begun > 2 * SETTLE
            if broken and settled and self._reason():
                with self._lock:
                    return self._publish(of_stuck(self._observed.states(), 0))
        with self._lock:
            self._publish(of_failure(self._observed.states(), self.board.rank, block))

    def _reason(self) -> bool:
        """Tell whether a rank ended, which explains a broken connection."""
        return bool(having(self._observed.states(), "finished", "missed"))
