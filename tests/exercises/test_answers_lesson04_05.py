"""What `check` says of answers to the exercises of lessons 4 and 5."""

from exercises.corpus import lesson04_05
from judging import Tried


class TestAnswers(Tried):
    corpus = lesson04_05
