"""Will it fit, and how long will it take? The answer for a machine you do not have."""

from __future__ import annotations

import argparse


def register(commands: argparse._SubParsersAction) -> None:
    """Add the command `plan`."""
    parser = commands.add_parser("plan", help="which way to gather fits a machine")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the plan; return the exit status."""
    raise ValueError("plan: not written yet")
