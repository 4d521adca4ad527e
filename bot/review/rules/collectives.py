"""A changed collective or its layout must come with the tests of its parallel path."""

import re
from collections.abc import Iterator

from bot.review.change import Change
from bot.review.models import Finding
from bot.review.python_code import called, places

RULE = "collective-without-test"
SOURCE = "performance patterns: USP communication optimization"
COLLECTIVES = re.compile(
    r"^_?(all_to_all|all_gather|reduce_scatter|all_reduce|broadcast|batch_isend_irecv|send|recv|isend|irecv)"
    r"(_single|_into_tensor|_tensor|_4d|_coalesced|_object)?$"
)
OWNERS = re.compile(r"dist|group|comm|torch\.distributed|parallel|^$")


def check(change: Change) -> Iterator[Finding]:
    """Yield the first added collective of each file where no test was changed."""
    if change.tests:
        return
    for file in change.files:
        if not file.is_production_python:
            continue
        for place in places(file):
            owner, _, name = called(place.node).rpartition(".")
            if COLLECTIVES.match(name) and OWNERS.search(owner):
                yield Finding(
                    rule=RULE,
                    severity="medium",
                    path=file.path,
                    line=place.line,
                    says=(
                        f"`{name}` is added or changed and no test of this pull request covers a "
                        "parallel run."
                    ),
                    do=(
                        "Add a test over two processes that compares with the single-process result, with "
                        "uneven heads and "
                        "strided layouts; say how bytes and collectives change."
                    ),
                    source=SOURCE,
                )
                break
