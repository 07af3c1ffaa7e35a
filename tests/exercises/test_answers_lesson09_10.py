"""What `check` says of answers to the exercises of lessons 9 and 10."""

from exercises.corpus import lesson09_10
from judging import Tried


class TestAnswers(Tried):
    corpus = lesson09_10
