"""A percentile needs requests beyond it: a p99 of ten requests is their maximum."""

import re
from collections.abc import Iterator

from bot.review.change import Change
from bot.review.claims import Description
from bot.review.models import Finding

RULE = "tail-latency-from-few-samples"
PERCENTILE = re.compile(r"(?:^|[^a-z0-9])p(9\d(?:\.\d{1,2})?)(?![\d.]*[a-z])", re.IGNORECASE)
BEYOND = 5  # requests that must lie beyond a percentile before it says anything


def check(change: Change) -> Iterator[Finding]:
    """Yield the highest percentile that the named number of requests cannot carry."""
    description = Description(change.title, change.body)
    named = sorted(
        {float(match) for line in description.lines for match in PERCENTILE.findall(line)}, reverse=True
    )
    samples = min(description.request_counts, default=description.samples)
    if samples is None:
        return
    for percentile in named:
        needed = round(BEYOND * 100 / (100 - percentile))
        if samples < needed:
            yield Finding(
                rule=RULE,
                severity="medium",
                says=(
                    f"A p{percentile:g} is given from {samples} requests; below {needed:,} it is little "
                    "more than the slowest "
                    "of them."
                ),
                do="Give the median with its range, or collect enough requests under a stated arrival model.",
                source="performance acceptance: no percentile from too few samples",
            )
            return
