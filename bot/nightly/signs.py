"""Supporting signs of an episode: what else moved that night. They never make a verdict. Pure."""

import re
from collections.abc import Mapping
from datetime import date

from bot.nightly.found import Metric, Nights
from bot.nightly.story import edge
from perf_runner.history.changes import stalls
from perf_runner.history.episodes import Episode as CaseEpisode
from perf_runner.history.families import Family
from perf_runner.history.signs import GpuTelemetry, Night, bound_by, is_host_bound, moved_stage
from perf_runner.history.tips import Edge

PIXELS = re.compile(r"(\d{2,5})x(\d{2,5})")


def signs(family: Family, nights: Nights) -> tuple[str, ...]:
    """Return what supports code, host or single requests; never a verdict."""
    case = family.cases[0]
    metrics, last = nights.of(case), case.last_night or date.min
    edge_found = edge(case, nights.judged(case))
    found = [note for one in family.cases[:3] for note in one.notes]
    found += stall_signs(metrics, case)
    found += host_signs(family, nights)
    found += stage_sign(metrics, edge_found, last)
    found += telemetry_sign(metrics, last)
    found += others_sign(family, nights)
    return tuple(dict.fromkeys(found))


def stall_signs(metrics: Mapping[str, Metric], case: CaseEpisode) -> list[str]:
    """Return the failing nights whose mean a few hanging requests carried."""
    mean, median = metrics.get("latency_mean"), metrics.get("latency_median")
    if mean is None or median is None:
        return []
    medians = {value.night: value.value for value in median.nights}
    both = {v.night: Night(v.value, medians[v.night]) for v in mean.nights if v.night in medians}
    first, last = case.first_night or date.max, case.last_night or date.min
    return [one.says for one in stalls(both) if first <= one.night <= last]


def host_signs(family: Family, nights: Nights) -> list[str]:
    """Return the sign of a host: small pictures are slower that night, large ones are not."""
    changes: dict[int, float] = {}
    for (_, config, hardware), metrics in nights.metrics.items():
        found = PIXELS.search(config[:300])
        for metric in metrics.values():
            value = metric.at(family.last_night)
            same = hardware == family.hardware and (metric.series.model or metric.series.test) == family.name
            if found and same and value and value.baseline and "latency" in metric.series.metric:
                pixels = int(found[1]) * int(found[2])
                changes[pixels] = value.value / value.baseline - 1.0
    if not is_host_bound(changes):
        return []
    small, large = min(changes), max(changes)
    said = (
        f"small pictures take {changes[small] * 100:+.1f} % of time, large ones {changes[large] * 100:+.1f} %"
    )
    return [f"{said}: small work waits for launches and Python, so it is host time that grew"]


def stage_sign(metrics: Mapping[str, Metric], found: Edge | None, last: date) -> list[str]:
    """Return the stage that moved most between the last good and the latest failing night."""
    if found is None or found.good is None:
        return []
    stages = {name: metric for name, metric in metrics.items() if name.startswith("stage.")}
    base = {name: value.value for name, metric in stages.items() if (value := metric.at(found.good.night))}
    head = {name: value.value for name, metric in stages.items() if (value := metric.at(last))}
    moved = moved_stage(base, head)
    if moved is None:
        return []
    name = moved.stage.removeprefix("stage.")
    return [f"the stage `{name}` moved by {moved.change_s:+.3g} s, {moved.share * 100:.0f} % of the change"]


def telemetry_sign(metrics: Mapping[str, Metric], last: date) -> list[str]:
    """Return what the GPU's clocks and its load say of the latest failing night."""

    def at(name: str) -> float | None:
        value = metrics[name].at(last) if name in metrics else None
        return value.value if value else None

    ratio, busy = at("gpu.clock_ratio"), at("gpu.busy_pct")
    throttled = at("gpu.throttled") is not None
    if ratio is None or busy is None:
        return ["the GPU was throttled that night"] if throttled else []
    words = {
        "host": "the GPU ran at its top clock and waited: the host is what bounds it",
        "gpu throttled": "the GPU was throttled",
        "gpu": "the GPU was busy: it is what bounds the case",
        "unclear": "the clocks do not tell what bounds it",
    }
    bound = bound_by(GpuTelemetry(ratio, busy, ("throttled",) if throttled else ()))
    return [f"{words[bound]} ({ratio * 100:.0f} % of the top clock, {busy:.0f} % busy)"]


def others_sign(family: Family, nights: Nights) -> list[str]:
    """Return whether other models fail since the same night: they share a host, not their code."""
    same = [
        other.name
        for other in nights.families
        if other is not family
        and (other.hardware, other.first_night) == (family.hardware, family.first_night)
    ]
    if not same:
        return []
    return [
        f"{len(same)} other model{'s' if len(same) > 1 else ''} fail since the same night on this hardware"
    ]
