"""Faults with a manner: those a person can mend carry one clear line, all others become an id."""

import uuid


class ConfigurationError(ValueError):
    """A setting is missing or wrong; the text says which and what to do."""


class PayloadRejected(Exception):  # noqa: N818 - an answer rather than a fault
    """A request is refused with `status` and one line that tells nothing about the service's inside."""

    def __init__(self, status: int, says: str) -> None:
        super().__init__(says)
        self.status = status
        self.says = says


def incident_id() -> str:
    """Return an id that ties what a person sees to the log line that tells all."""
    return uuid.uuid4().hex[:12]


def one_line(error: BaseException, limit: int = 500) -> str:
    """Return an exception as one line, cut at `limit` characters."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
