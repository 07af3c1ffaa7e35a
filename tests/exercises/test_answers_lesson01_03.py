"""What `check` says of answers to the exercises of lessons 1 to 3."""

from exercises.corpus import lesson01_03
from judging import Tried


class TestAnswers(Tried):
    corpus = lesson01_03
