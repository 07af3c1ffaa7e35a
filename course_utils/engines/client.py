"""The client of a controller, with all that ranks show."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from typing import Any

from ipyparallel import Client
from ipyparallel.client.client import unpack_message
from traitlets.log import get_logger

UNSIGNED = "Message signing is disabled"
PRINTED = ("stdout", "stderr")


def not_about_signing(record: logging.LogRecord) -> bool:
    """Drop a warning that is wrong here: CurveZMQ encrypts, and signs, all messages."""
    return UNSIGNED not in str(record.msg)


class RankClient(Client):
    """ipyparallel's client; displays that a rank updates or clears do change.

    ipyparallel keeps what is displayed first, and drops what comes for it later.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._to_clear: set[str] = set()  # requests whose next output replaces all
        log = get_logger()
        log.addFilter(not_about_signing)
        try:
            super().__init__(*args, **kwargs)
        finally:
            log.removeFilter(not_about_signing)

    @property
    def ids(self) -> list[int]:
        """The ids of the engines that can be addressed.

        ipyparallel's thread notes the id of a new engine first, and how to address
        it after that: whoever waits for ids in another thread may come in between.
        """
        return [id_ for id_ in self._ids if id_ in self._engines]

    def ask_for_engines(self) -> None:
        """Ask the controller which engines there are.

        It tells of each that registers, but this client may not have been connected
        to hear that.
        """
        asked = self._send(self._query_socket, "connection_request")
        asked.add_done_callback(self._take_in_engines)

    def _take_in_engines(self, asked: Future) -> None:
        self._update_engines(asked.result()["content"]["engines"])

    @unpack_message
    def _dispatch_iopub(self, message: dict) -> None:
        """Take in one message of what a rank shows."""
        kind = message["header"]["msg_type"]
        parent = message["parent_header"] or {}
        if parent.get("session") == self.session.session:
            request = parent["msg_id"]
            if kind in ("stream", "display_data", "update_display_data"):
                if request in self._to_clear:
                    self._clear(request)
            if kind == "clear_output":
                self._to_clear.add(request)
                if not message["content"].get("wait"):
                    self._clear(request)
                return
            if kind == "update_display_data":
                self._update(request, message["content"])
                return
        Client._dispatch_iopub.__wrapped__(self, message)

    def _handle_execute_reply(self, message: dict) -> None:
        if self._is_awaited(message):
            super()._handle_execute_reply(message)

    def _handle_apply_reply(self, message: dict) -> None:
        if self._is_awaited(message):
            super()._handle_apply_reply(message)

    def _is_awaited(self, message: dict) -> bool:
        """Tell whether a reply is still waited for.

        A rank on a host that counted as gone may answer once it is back. ipyparallel
        would print that, in whatever cell runs at that moment.
        """
        request = message["parent_header"]["msg_id"]
        if self._should_use_metadata_msg_id(message):
            request = message["metadata"]["original_msg_id"]
        return request in self.outstanding

    def _clear(self, request: str) -> None:
        self._to_clear.discard(request)
        shown = self.metadata[request]
        shown["outputs"].clear()
        shown.update(dict.fromkeys(PRINTED, ""))

    def _update(self, request: str, content: dict) -> None:
        """Put new data in the place of what was displayed under the same id."""
        wanted = content.get("transient", {}).get("display_id")
        for shown in self.metadata[request]["outputs"]:
            if shown.get("transient", {}).get("display_id") == wanted:
                shown.update(content)
