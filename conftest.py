"""Plugins for every test, the notebooks' cells included.

This file stands at the root because pytest applies the hooks of a conftest.py only
to what lies below it.
"""

pytest_plugins = ["pytester", "running", "needs_hosts"]
