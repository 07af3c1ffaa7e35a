"""What `check` says of answers to the exercises of lesson 7."""

from exercises.corpus import lesson07
from judging import Tried


class TestAnswers(Tried):
    corpus = lesson07
