"""Ends a child with the process that started it, however that one ends."""

import ctypes
import signal
import sys

PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Ask Linux to send SIGTERM when the starting thread ends, even by SIGKILL; elsewhere nothing is asked.

    For `preexec_fn`: start such children from the main thread (prctl(2), PR_SET_PDEATHSIG).
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
