"""An engine touches few of the pages that it shares, and all works as before."""

import logging

import psutil

MOST = 36e6  # bytes of a rank's own, and of its helpers'; it has some 24 MB, had 37 MB

SEEN = """
import sys
import ipykernel.ipkernel
from traitlets.config import Application
kernel = get_ipython().kernel
listed = kernel._kernel_modules
same = ipykernel.ipkernel.sys.stdout is sys.stdout, "torch" in sys.modules
levels = [handler.level for handler in Application.instance().log.handlers]
"""


def test_a_kernel_lists_no_modules_and_reads_sys(ranks):
    ranks.view.execute(SEEN)
    assert ranks["listed"] == [[]] * 4
    assert ranks["same"] == [(True, True)] * 4


def test_the_log_is_configured(ranks):
    ranks.view.execute(SEEN)
    assert ranks["levels"] == [[logging.ERROR]] * 4


def test_a_rank_has_few_pages_of_its_own(ranks):
    for row in ranks.where().rows:
        rank = psutil.Process(row[1])
        family = [rank, *rank.children(recursive=True)]
        assert sum(each.memory_full_info().uss for each in family) < MOST
