"""What `check` says of answers to the exercises of lessons 11 and 12."""

from exercises.corpus import lesson11_12
from judging import Tried


class TestAnswers(Tried):
    corpus = lesson11_12
