"""The thread that watches on each rank, and what it does about what it learns."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

from course_utils.stuck import having, sequences
from course_utils.watched import keeping
from course_utils.watched import meeting as meetings
from course_utils.watched.board import Board
from course_utils.watched.leaving import Leaving
from course_utils.watched.lookout import Lookout
from course_utils.watched.options import Options
from course_utils.watched.page import Page
from course_utils.watched.verdict import SURE, Observed, Suspicion
from course_utils.watched.voice import Voice
from course_utils.watched.words import name_of, of_failure, of_stuck

JUDGES = 8  # ranks that read what all ranks tell, at one time
PERIOD = 0.25  # seconds between looks
SETTLE = 0.6  # seconds in which the others are seen to wait, after an error
GONE = ("finished", "died")  # these write no report any more
REASON = 10.0  # seconds in which the reason for a broken connection has to come


class Sentry:
    """Watch this rank, tell the others, and heed what they tell."""

    def __init__(self, options: Options, page: Page | None = None) -> None:
        self.options = options
        self._voice = Voice(page)
        self._lookout = Lookout()
        self._observed: Observed | None = None
        self._suspicion: Suspicion | None = None
        self._leaving = Leaving(options)
        self._early = max(options.patience - SURE, options.patience / 2)
        self._last: dict[str, Any] | None = None  # the state of a rank that has ended
        self._begun: dict[str, int] = {}
        self._store: Any = None  # that this rank keeps for all, once its group is gone
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watched", daemon=True)

    @property
    def board(self) -> Board | None:
        """Where this rank meets the others; None while nobody listens there."""
        return self._voice.board

    def start(self) -> None:
        """Begin to watch."""
        self._voice.note()
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(PERIOD if self._voice.beat else 0):
            try:
                with self._lock:
                    self._once()
            except RuntimeError:  # the store is gone; perhaps another one comes
                self._voice.board = None

    def _stop(self) -> None:
        """Stop watching: a thread that is in C++ when Python ends would abort it."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(2 * SETTLE)

    def _once(self) -> None:
        if self.board is None:
            self._join()
        state = self._last or self._lookout.look()
        self._voice.tell(state)
        if self.board is None:
            return
        for what in self.board.news():
            self._heed(what)
        if state["kind"] == "waits" and state["waited"] > self._early:
            turns = -(-self.board.world_size // JUDGES)
            if (self._voice.beat + self.board.rank) % turns == 0:
                self._judge()

    def _join(self) -> None:
        if self._voice.join():
            self._lookout.port = self._voice.meeting.port
            self._observed = Observed(self.board.world_size)

    def remember(self) -> None:
        """Keep what is needed of groups that are about to be destroyed."""
        self._begun.update(sequences())
        if self.board is not None:
            self._store = keeping.own_store(self.board.rank) or self._store

    def meet(self, at: meetings.Meeting | None) -> None:
        """Take the store of a process group that is about to be initialised."""
        self._store = None  # it may be at the same port
        if at is not None and at.rank >= 0 and at != self._voice.meeting:
            with self._lock:
                self._voice.meet(at)

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
            self._publish(self._stuck(self.options.patience))

    def _stuck(self, patience: float) -> str:
        return of_stuck(self._observed.states(), patience, self._observed.hosts())

    def _publish(self, text: str) -> None:
        """Announce a report, unless it was, or another rank is about to."""
        at = self.board
        if at is None or text == self._voice.reported:
            return
        if at.claim(name_of(text)):
            at.announce({"text": text})
        limit = time.monotonic() + SETTLE
        while not self._voice.reported and time.monotonic() < limit:
            for what in at.news():
                self._heed(what)
            time.sleep(PERIOD / 10)

    def _heed(self, what: dict[str, Any]) -> None:
        """Write a report that concerns all, and go the way that was chosen."""
        if what["text"] != self._voice.reported:
            self._voice.reported = what["text"]
            self._voice.note()
            self._leaving.write(what["text"])
            if self._last is None or self._last["kind"] not in GONE:
                self.board.acknowledge(name_of(what["text"]))
            self._leaving.go(self._others_wrote(), last=self._keeps_store())

    def _others_wrote(self) -> Callable[[], bool]:
        """Return a function that tells whether all ranks that can have written it."""
        at, name = self.board, name_of(self._voice.reported)
        gone = sum(state["kind"] in GONE for state in at.everyone().values())
        return lambda: at.acknowledged(name) >= at.world_size - gone

    def _keeps_store(self) -> bool:
        """Tell whether the board goes with this process."""
        return (self._store or keeping.own_store(self.board.rank)) is not None

    def finish(self) -> None:
        """Tell that the script has ended well on this rank."""
        here = os.getpid() == self._pid  # and not in a process that the script forked
        if here and self._last is None:
            self._end({"kind": "finished"})
            try:
                self._outlast()
            except RuntimeError:  # the store is gone
                pass
            self._stop()

    def _outlast(self) -> None:
        """Keep the store of this rank until the others have ended, too."""
        begun, at = time.monotonic(), self.board
        if at is None or not self._keeps_store():
            return
        while not self._stopped.wait(keeping.PERIOD):
            with self._lock:
                self._observed.update(at.everyone())
            if not keeping.going_on(self._observed, at.rank, begun):
                return

    def _end(self, state: dict[str, Any]) -> None:
        with self._lock:
            begun = {**self._begun, **sequences()}
            self._last = {"waited": 0, "begun": begun, **state}
            try:
                if self.board is None:
                    self._join()
                self._voice.tell(self._last)
            except RuntimeError:
                self._voice.board = None

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
            self._report(block, kind == "waits")
        except RuntimeError:  # the store is gone
            pass
        self._stop()

    def _report(self, block: str, broken: bool) -> None:
        at = self.board
        if at is None:
            return
        complete = time.monotonic()
        limit = complete + (REASON if broken else SETTLE)
        while time.monotonic() < limit:
            time.sleep(PERIOD / 2)
            with self._lock:
                if self._voice.reported:
                    return
                self._observed.update(at.everyone())
            if not self._observed.all_told():
                complete = time.monotonic()
            settled = time.monotonic() - complete > 2 * SETTLE
            if broken and settled and self._reason():
                break
        seen = self._observed
        with self._lock:
            if broken and self._reason():
                self._publish(self._stuck(0))
            else:
                self._publish(of_failure(seen.states(), at.rank, block, seen.hosts()))

    def _reason(self) -> bool:
        """Tell whether a rank ended, which explains a broken connection."""
        return bool(having(self._observed.states(), "finished", "missed"))
