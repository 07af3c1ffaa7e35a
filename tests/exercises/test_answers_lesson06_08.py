"""What `check` says of answers to the exercises of lessons 6 and 8."""

from exercises.corpus import lesson06_08
from judging import Tried


class TestAnswers(Tried):
    corpus = lesson06_08
