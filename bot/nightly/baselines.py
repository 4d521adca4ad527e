"""The stored baselines: what is wrong with each, what a refresh would be, and what that would hide."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from bot.db.nightly import Baseline as Row
from bot.db.nightly import NightlySeries
from bot.nightly.store import baselines_of, take_baseline, values_of
from bot.nightly.values import Value, way_of
from perf_runner.history.baselines import Baseline, BaselineFinding, Refresh, examine, propose
from perf_runner.history.metrics import improvement_pct
from perf_runner.history.series import Series

WINDOW = timedelta(days=7)
HISTORY = timedelta(days=120)
# A proposal is made where the level of the window's nights is this far from the baseline.
STALE_PCT = 2.0


@dataclass(frozen=True)
class Examined:
    """One series' baseline in force, its faults, and the refresh that its newest nights propose."""

    series: NightlySeries
    baseline: Baseline
    since: date
    findings: tuple[BaselineFinding, ...]
    refresh: Refresh | None

    def document(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "test": self.series.test,
            "config": self.series.config,
            "hardware": self.series.hardware,
            "metric": self.series.metric,
            "baseline": figures(self.baseline) | {"since": self.since},
            "findings": [{"kind": one.kind, "says": one.says} for one in self.findings],
            "refresh": None
            if self.refresh is None
            else {
                **figures(self.refresh.proposed),
                "change_pct": round(self.refresh.change_pct, 2),
                "hides": list(self.refresh.hides),
            },
        }

    def lines(self) -> list[str]:
        """Return it as lines for a terminal."""
        name = "  ".join(filter(None, (self.series.test, self.series.config, self.series.hardware)))
        found = [f"{name}  {self.series.metric} {self.baseline.value:g} since {self.since}"]
        found.append(f"    from: {self.baseline.origin or 'not known'}")
        found += [f"    {one.says}" for one in self.findings]
        if self.refresh:
            new = self.refresh.proposed
            change = f"{self.refresh.change_pct:+.1f} %"
            found.append(f"    proposed: {new.value:g} (n {new.n}, sd {new.sd or 0:.3g}), {change}")
            found += [f"    would hide: {line}" for line in self.refresh.hides]
        return found


def figures(baseline: Baseline) -> dict[str, Any]:
    """Return a baseline's fields as JSON."""
    first, last = baseline.window or (None, None)
    return {
        "value": baseline.value,
        "n": baseline.n,
        "sd": baseline.sd,
        "first_night": first,
        "last_night": last,
        "origin": baseline.origin,
    }


def examine_all(session: Session, repo_id: int) -> list[Examined]:
    """Return the baseline in force of each series; those without one are left out."""
    rows = list(session.scalars(select(NightlySeries).where(NightlySeries.repo_id == repo_id)))
    known = baselines_of(session, [row.id for row in rows])
    judged = [row for row in rows if row.id in known and row.last_night]
    if not judged:
        return []
    newest = max(row.last_night for row in judged if row.last_night)
    since = min(known[row.id][-1].since for row in judged)
    values = values_of(session, [row.id for row in judged], max(since, newest - HISTORY) - WINDOW)
    found = [examined(row, known[row.id][-1], values.get(row.id, ())) for row in judged]
    return sorted(found, key=lambda one: (one.series.test, one.series.config, one.series.metric))


def reference(row: Row) -> Baseline:
    """Return a stored baseline."""
    window = (row.first_night, row.last_night) if row.first_night and row.last_night else None
    return Baseline(row.value, row.n, row.sd, window, row.origin)


def examined(row: NightlySeries, stored: Row, nights: Sequence[Value]) -> Examined:
    """Return one baseline against its nights; those of issues are left out, since issues tell of bad ones."""
    baseline, way = reference(stored), way_of(row)
    nights = [value for value in nights if not value.source.startswith("issue")]
    series = Series(row.metric, tuple(v.night for v in nights), tuple(v.value for v in nights))
    found = tuple(examine(baseline, series, way, stored.since))
    return Examined(row, baseline, stored.since, found, refresh_of(baseline, series, row))


def refresh_of(baseline: Baseline, series: Series, row: NightlySeries) -> Refresh | None:
    """Return the proposal of the last week's nights; None where it is too thin or says nothing new."""
    if not series.nights:
        return None
    window = (series.nights[-1] - WINDOW + timedelta(days=1), series.nights[-1])
    recent = [v for n, v in zip(series.nights, series.values, strict=True) if n >= window[0]]
    if len(recent) < 3:
        return None
    change = improvement_pct(baseline.value, statistics.median(recent), way_of(row))
    return propose(baseline, series, window, way_of(row)) if abs(change) >= STALE_PCT else None


def take_proposals(session: Session, found: Sequence[Examined], today: date) -> int:
    """Put the proposals that hide nothing in force from tomorrow; return how many."""
    safe = [one for one in found if one.refresh is not None and not one.refresh.hides]
    for one in safe:
        assert one.refresh is not None
        take_baseline(session, one.series, one.refresh.proposed, today + timedelta(days=1))
    return len(safe)
