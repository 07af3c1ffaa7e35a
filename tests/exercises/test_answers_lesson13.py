"""What `check` says of answers to the exercises of lesson 13."""

from exercises.corpus import lesson13
from judging import Tried


class TestAnswers(Tried):
    corpus = lesson13
