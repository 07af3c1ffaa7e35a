"""Colours for cells that begin with %%px: the magic, and Python below it."""

from __future__ import annotations

from collections.abc import Iterator

from pygments.lexer import Lexer
from pygments.lexers.python import PythonLexer
from pygments.token import Comment, Keyword, Text, _TokenType


class CellLexer(Lexer):
    """Read a cell of a notebook; its `%` and `%%` lines are magics, the rest Python."""

    name = "Cell of a notebook"
    aliases = ["ipython3", "ipython"]

    def get_tokens_unprocessed(
        self, text: str
    ) -> Iterator[tuple[int, _TokenType, str]]:
        """Yield the tokens of a cell, each with its place."""
        at = 0
        while text.startswith("%", at):
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            name, space, rest = text[at:end].partition(" ")
            yield at, Keyword.Pseudo, name
            yield at + len(name), Comment, space + rest
            yield end, Text, text[end : end + 1]
            at = end + 1
        python = PythonLexer(stripnl=False, ensurenl=False)
        for place, kind, value in python.get_tokens_unprocessed(text[at:]):
            yield at + place, kind, value
