"""Waiting for what is told, not done: a delivery, a stream, a job."""

import time

import pytest

WAIT_S = 30
# How often to look again.
EVERY_S = 0.03


def until(found, what, wait_s=WAIT_S):
    """The first true value of `found`; the test fails where there is none in time."""
    end = time.monotonic() + wait_s
    while time.monotonic() < end:
        value = found()
        if value:
            return value
        time.sleep(EVERY_S)
    pytest.fail(f"{what}: not within {wait_s} s")
