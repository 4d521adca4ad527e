"""A performance claim is judged by its evidence: where, against what, how often, and end to end."""

import re
from collections.abc import Iterator

from bot.review.change import Change
from bot.review.claims import GPUS, SPEED, Description, has_noise_figure, measured_on
from bot.review.models import Claim, Finding, Severity
from bot.review.tables import Table, beside, confirm

SOURCE = "performance acceptance"
CLAIMS_SPEED = re.compile(
    r"faster|speed-?\s?up|optimi[sz]|\[perf|latency|throughput|reduces? (?:time|launch|overhead)",
    re.IGNORECASE,
)
NOISE = re.compile(
    r"within (?:the )?(?:normal |usual |run-to-run )?(?:noise|variance|jitter)|just noise", re.IGNORECASE
)
KERNEL = re.compile(r"kernel|micro-?bench|operator|standalone|\bops?\b", re.IGNORECASE)
WINS = re.compile(r"faster|speed-?\s?up|\d(?:\.\d+)?\s?[x×]\b", re.IGNORECASE)
WHOLE = re.compile(
    r"e2e|end[- ]to[- ]end|throughput|\bqps\b|request latency|latency_mean|images/s|tokens/s", re.IGNORECASE
)
OPEN_BOX = re.compile(r"^[-*•+]?\s*\[ \]\s*(.+)")
BULLET = re.compile(r"^[-*•]\s+(?!\[)(.+)")
PENDING = re.compile(
    r"\b(?:expect(?:ed)?|pending|todo|tbd|to be (?:run|done)|will (?:run|report)|not (?:yet|run))\b",
    re.IGNORECASE,
)
METRIC_WORDS = re.compile(r"latency|throughput|qps|fps|memory|ttf[tp]|tpot", re.IGNORECASE)
FIGURE = re.compile(r"\d(?:\.\d+)?\s?(?:%|ms\b|s\b|x\b|×|us\b|µs\b)", re.IGNORECASE)


def check(change: Change) -> Iterator[Finding]:
    """Yield what the description's performance claims lack."""
    description = Description(change.title, change.body)
    if not CLAIMS_SPEED.search(f"{change.title}\n{change.body}"):
        return
    yield from without_figure(description)
    yield from incomplete(description)
    yield from kernel_only(description)
    yield from noise_without_figure(description)
    yield from other_hardware(description)
    yield from open_rows(description)
    yield from wrong_percentages(description)


def about(rule: str, severity: Severity, says: str, do: str) -> Finding:
    """Return a finding about the description."""
    return Finding(rule=rule, severity=severity, says=says, do=do, source=SOURCE)


def has_figures(description: Description) -> bool:
    """Say whether any line about speed has a number with a unit, or a table has numbers."""
    in_prose = any(SPEED.search(line) and FIGURE.search(line) for line in description.lines)
    return in_prose or any(is_numeric(table) for table in description.tables)


def is_numeric(table: Table) -> bool:
    """Say whether a table has numbers to compare, one above the other or side by side."""
    return confirm(0.0, (table, beside(table)))[1] is not None


def without_figure(description: Description) -> Iterator[Finding]:
    """Yield a claim of speed that has no number at all."""
    if not has_figures(description):
        yield about(
            "claim-without-figure",
            "medium",
            "The pull request claims speed and gives no figure.",
            "Add before and after of a fixed workload: model, shape, steps, seed, hardware, at least "
            "three runs.",
        )


def incomplete(description: Description) -> Iterator[Finding]:
    """Yield each kind of evidence that is missing behind the figures."""
    if not has_figures(description):
        return
    advice = {
        "hardware": ("claim-without-hardware", "Name the accelerator, backend, topology and dtype."),
        "baseline": (
            "claim-without-baseline",
            "Say which commit it is compared with, measured on the same host.",
        ),
        "sample count": (
            "claim-without-samples",
            "Say how many runs and requests were measured after which warm-up.",
        ),
        "raw runs": (
            "no-raw-runs",
            "List at least three raw runs of each side, interleaved, or attach the result files.",
        ),
        "end-to-end figure": (
            "claim-without-end-to-end",
            "Give the end-to-end latency or throughput beside the local figure.",
        ),
    }
    for name in description.missing:
        if name in advice:
            rule, do = advice[name]
            yield about(rule, "medium", f"The figures come without {name_of(name)}.", do)


def name_of(missing: str) -> str:
    """Return the missing thing with its article."""
    articles = {
        "baseline": "a baseline",
        "sample count": "a number of samples",
        "end-to-end figure": "an end-to-end figure",
    }
    return articles.get(missing, missing)


def kernel_only(description: Description) -> Iterator[Finding]:
    """Yield a kernel win that names no end-to-end metric."""
    wins = [
        line
        for line in description.lines
        if KERNEL.search(line) and WINS.search(line) and FIGURE.search(line)
    ]
    if wins and not any(WHOLE.search(line) for line in description.lines):
        yield about(
            "kernel-win-without-end-to-end",
            "high",
            f"A kernel is said to win (“{wins[0][:120]}”) and no end-to-end metric is shown to move.",
            "Measure the whole request on the same workload: launches and dispatch can cost more than "
            "the kernel saves.",
        )


def noise_without_figure(description: Description) -> Iterator[Finding]:
    """Yield an appeal to noise that was not measured."""
    line = next((line for line in description.lines if NOISE.search(line)), None)
    if line and not has_noise_figure(description):
        yield about(
            "noise-without-figure",
            "medium",
            f"A difference is called noise and the noise is not given: “{line[:160]}”.",
            "Give the spread of unchanged runs on this host (A against A), or an interval of the difference.",
        )


def other_hardware(description: Description) -> Iterator[Finding]:
    """Yield evidence from one accelerator for a claim about another."""
    measured = measured_on(description)
    others = [gpu for gpu in description.hardware if gpu not in measured]
    if measured and others:
        yield about(
            "evidence-from-other-hardware",
            "medium",
            f"The measurements are from {', '.join(measured)}; what is claimed or failing is on "
            f"{', '.join(others)}.",
            f"Measure on {others[0]} as well, or limit the claim to {measured[0]}.",
        )


def open_rows(description: Description) -> Iterator[Finding]:
    """Yield each row of the test plan that is not done."""
    for line in description.lines:
        box, bullet = OPEN_BOX.match(line), BULLET.match(line)
        text = (
            box[1]
            if box
            else bullet[1]
            if bullet and PENDING.search(bullet[1]) and is_test(bullet[1])
            else None
        )
        if text:
            yield about(
                "open-test-row",
                "medium",
                f"This row of the test plan is still open: “{text[:160]}”.",
                "Run it and add its result, or say why it can wait.",
            )


def is_test(text: str) -> bool:
    """Say whether a bullet speaks of a test or a machine to run it on."""
    return bool(re.search(r"\btest|bench|nightly|harness", text, re.IGNORECASE) or GPUS.search(text))


def wrong_percentages(description: Description) -> Iterator[Finding]:
    """Yield percentages that the description's own tables do not give."""
    told = [claim for claim in description.prose_claims() if is_of_a_table(claim, description)]
    for claim in (*description.table_claims(), *told):
        if claim.confirmed is False:
            yield about(
                "percentage-does-not-follow",
                "high",
                f"{abs(claim.value_pct or 0.0):g} % in “{claim.text[:120]}” does not follow from the table's "
                "own numbers.",
                "Recompute it from the rows, and say which metric it is of.",
            )


def is_of_a_table(claim: Claim, description: Description) -> bool:
    """Say whether a line speaks of the two builds of the only table with numbers, in one of its metrics."""
    numeric = [table for table in description.tables if is_numeric(table)]
    if len(numeric) != 1 or len(numeric[0].rows) != 2:
        return False
    names = {word.lower() for head in numeric[0].header for word in METRIC_WORDS.findall(head)}
    return bool(names & {word.lower() for word in METRIC_WORDS.findall(claim.text)})
