"""The noise prior that the nights give for nothing: A/A blocks of a case on one class of hosts."""

import math
from collections.abc import Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from bot.db.nightly import Nightly, NightlySeries
from perf_runner.history.measurements import NOISE_METRIC
from perf_runner.protocol import Prior

# Older nights tell of a host as it was; fewer blocks tell too little.
NEWEST_NIGHTS = 14
FEWEST_BLOCKS = 10


def priors_for(session: Session, repo_id: int, cases: Sequence[Any], host_class: str) -> dict[str, Prior]:
    """Return the prior of each case (a whole case as JSON) that has nights enough on this class of hosts."""
    found = {}
    for case in cases:
        if not isinstance(case, dict) or not host_class:
            continue
        prior = prior_of(session, repo_id, str(case.get("test_name", "")), str(case["name"]), host_class)
        if prior is not None:
            found[str(case["name"])] = prior
    return found


def prior_of(session: Session, repo_id: int, test: str, name: str, host_class: str) -> Prior | None:
    """Return the pooled sd of the newest nights' A/A blocks; None below ten of them."""
    asked = (
        select(Nightly.value, Nightly.n)
        .join(NightlySeries, NightlySeries.id == Nightly.series_id)
        .where(
            NightlySeries.repo_id == repo_id,
            NightlySeries.test == test,
            NightlySeries.config == name,
            NightlySeries.metric == NOISE_METRIC,
            Nightly.machine == host_class,
        )
        .order_by(Nightly.night.desc())
        .limit(NEWEST_NIGHTS)
    )
    nights = [(sd, n) for sd, n in session.execute(asked) if n]
    blocks = sum(n for _, n in nights)
    if blocks < FEWEST_BLOCKS:
        return None
    return Prior(sd=math.sqrt(sum(n * sd**2 for sd, n in nights) / blocks), df=float(blocks))
