"""Which path every operator call really took: counters that are cheap enough to stay on.

An enabled flag is no evidence that a fast path ran; a count of its launches is. A path is named
`operator.fused` or `operator.eager:reason`.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

_counts: dict[str, int] = {}


def record(name: str) -> None:
    """Count one call of a path."""
    _counts[name] = _counts.get(name, 0) + 1


def add(counts: Mapping[str, int]) -> None:
    """Count calls known from elsewhere: a CUDA-graph replay repeats the calls of its capture."""
    for name, count in counts.items():
        _counts[name] = _counts.get(name, 0) + count


def snapshot() -> dict[str, int]:
    """Return the counts so far."""
    return dict(_counts)


def reset() -> None:
    """Forget all counts."""
    _counts.clear()


def since(before: Mapping[str, int]) -> dict[str, int]:
    """Return what was counted after a snapshot; paths that were not taken since are left out."""
    grown = {name: count - before.get(name, 0) for name, count in _counts.items()}
    return {name: count for name, count in sorted(grown.items()) if count > 0}


@contextmanager
def counted() -> Iterator[dict[str, int]]:
    """Fill the yielded mapping, at the end of the block, with the paths taken inside it."""
    before, found = snapshot(), dict[str, int]()
    try:
        yield found
    finally:
        found.update(since(before))
