"""An engine touches few of the pages that it shares, and all works as before."""

import logging

import psutil

MOST = 40 * 2**20  # bytes of a rank's own; some 24 MB here, and 37 MB without

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
        assert psutil.Process(row[1]).memory_full_info().uss < MOST
