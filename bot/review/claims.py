"""What a description claims about speed: its tables, its percentages, and what stands behind them. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from bot.review.models import Claim
from bot.review.tables import METRICS, MOST_TABLES, TOLERANCE, Table, beside, confirm, pairs_with, read_tables

BODY_LIMIT = 200_000
MOST_LINE = 4_000  # characters of a line that are read for percentages
MOST_CLAIMS = 100  # read of the tables, and of the prose
PERCENT = re.compile(r"(?P<about>[~≈]\s?)?(?P<sign>[+\-−–])?\s?(?P<value>\d{1,4}(?:\.\d{1,3})?)\s?%")
WORDS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10}
COUNT = rf"\b(\d{{1,7}}|{'|'.join(WORDS)})\s(?:(?!warm)[a-z-]{{1,20}}\s)?"  # "5 measured runs"
REQUESTS = re.compile(rf"\bn\s?=\s?(\d{{1,7}})\b|{COUNT}(?:requests|prompts|samples)\b", re.IGNORECASE)
RUNS = re.compile(
    rf"{COUNT}(?:repetitions|repeats|runs|launches|iterations|iters|trials|measurements)\b", re.IGNORECASE
)
GPUS = re.compile(
    r"\b(?:NVIDIA\s)?((?:GB|GH|[ABHLTV])\d{2,3}[XS]?|[LT]4|MI\d{3}[XA]?|RTX\s?(?:PRO\s)?\d{4}|A10G|910[BC]\d?|A3"
    r"|Gaudi\s?\d|Arc\s[AB]\d{3})\b"
)
HIGHER_IS_BETTER = re.compile(r"throughput|qps|fps|/s\b", re.IGNORECASE)
SPEED = re.compile(
    r"latency|throughput|qps|faster|slower|speed|regress|improve|e2e|end[- ]to[- ]end"
    r"|vs\.? (?:parent|base|main)",
    re.IGNORECASE,
)
END_TO_END = re.compile(
    r"e2e|end[- ]to[- ]end|throughput|\bqps\b|latency|images/s|tokens/s|requests/s", re.IGNORECASE
)
BASELINE = re.compile(r"parent|baseline|\bmain\b|before|\bvs\b|versus|against|compared", re.IGNORECASE)
RAW_RUNS = re.compile(r"\b(?:raw|runs?|repeats?|repetitions?|samples)\b", re.IGNORECASE)
DECIMALS = re.compile(r"\d+\.\d+")
CHANGE_COLUMN = re.compile(
    r"\bvs\b|against|delta|change|Δ|diff|speed-?up|improv|\bgain|reduction|saving", re.IGNORECASE
)
IMPROVES = re.compile(r"improv|faster|speed-?\s?up|\bgain", re.IGNORECASE)
GAINS = re.compile(
    r"improv|faster|speed-?\s?up|reduc|\blower|\bless\b|\bsav(?:es|ing)|\bfalls?\b|drop|decreas|\bcut",
    re.IGNORECASE,
)
CHANGES = re.compile(
    r"\b(?:improv|reduc|increas|decreas|drop|fall|fell|rise|rose|gain|sav|cut|lower|higher|faster|slower|regress)"
    r"\w{0,6}\b(?![\w\s]{0,30}\bto\s?$)[\w\s()~≈-]{0,30}$",
    re.IGNORECASE,
)
SENTENCE_END = re.compile(r"(?<=[.;!])\s")


@dataclass(frozen=True)
class Description:
    """A description, read once for all rules."""

    title: str
    body: str

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """Return the title and the lines of the body, without blanks around them."""
        return tuple(line.strip() for line in (self.title, *self.body[:BODY_LIMIT].splitlines()))

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """Return the tables, written with bars or tabs."""
        return tuple(islice(read_tables(self.lines), MOST_TABLES))

    @cached_property
    def samples(self) -> int | None:
        """Return the smallest number of requests or runs that is named."""
        runs = [count(match[1]) for line in self.lines for match in RUNS.finditer(line)]
        return min([*runs, *self.request_counts], default=None)

    @cached_property
    def request_counts(self) -> tuple[int, ...]:
        """Return every number of requests that is named."""
        matches = (match for line in self.lines for match in REQUESTS.finditer(line))
        return tuple(count(match[1] or match[2]) for match in matches)

    @cached_property
    def hardware(self) -> tuple[str, ...]:
        """Return the accelerators that are named, in the order of the text."""
        return tuple(dict.fromkeys(match[1] for line in self.lines for match in GPUS.finditer(line)))

    @cached_property
    def has_raw_runs(self) -> bool:
        """Say whether at least three single measurements are listed, or a result file is attached."""
        listed = any(RAW_RUNS.search(line) and len(DECIMALS.findall(line)) >= 3 for line in self.lines)
        attached = any(re.search(r"\.(?:json|csv)\)", line) for line in self.lines)
        by_run = any(
            re.match(r"run\s?#?\d", row[0], re.IGNORECASE) for table in self.tables for row in table.rows
        )
        return listed or attached or by_run

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """Return the claims of the tables and of the prose, each percentage once."""
        found: dict[tuple[float | None, str], Claim] = {}
        for claim in (*self.table_claims(), *self.prose_claims()):
            found.setdefault((claim.value_pct, (claim.metric or "")[:7]), claim)
        return tuple(found.values())

    def table_claims(self) -> Iterator[Claim]:
        """Yield the cells of columns that say how a row compares, at most `MOST_CLAIMS`."""
        yield from islice(self.every_cell(), MOST_CLAIMS)

    def prose_claims(self) -> Iterator[Claim]:
        """Yield the percentages of sentences on speed, at most `MOST_CLAIMS`."""
        yield from islice(self.every_sentence(), MOST_CLAIMS)

    def every_cell(self) -> Iterator[Claim]:
        """Yield the claim of each cell that says how its row compares."""
        for table in self.tables:
            for column, head in enumerate(table.header):
                if CHANGE_COLUMN.search(head):
                    for row in table.rows:
                        match = PERCENT.search(row[column])
                        if match and not match["about"]:
                            own = beside(table, row)
                            text = f"{row[0]}: {row[column]} {head}"
                            yield self.claim(text, match, *([own] if own.rows else pairs_with(table, row)))

    def every_sentence(self) -> Iterator[Claim]:
        """Yield the percentages, signed or of a change, of sentences on speed that belong to no table."""
        prose = (line for line in self.lines if "\t" not in line and not line.startswith("|"))
        for sentence in (
            part for line in prose for part in SENTENCE_END.split(line[:MOST_LINE]) if SPEED.search(part)
        ):
            for match in PERCENT.finditer(sentence):
                told = match["sign"] in {"+", "-", "−"} or CHANGES.search(sentence[: match.start()][-60:])
                if told and not match["about"]:
                    yield self.claim(sentence, match, *self.tables, *map(beside, self.tables))

    def claim(self, text: str, match: re.Match[str], *tables: Table) -> Claim:
        """Build the claim of one percentage; above 0 is an improvement."""
        printed = float(match["value"]) * (-1 if match["sign"] in {"-", "−", "–"} else 1)
        metric, confirmed = confirm(printed, tables, precision(match["value"]), bool(GAINS.search(text)))
        metric = metric or next(iter(METRICS.findall(text)), None)
        better_up = bool(metric and HIGHER_IS_BETTER.search(metric))
        as_gain = match["sign"] in {None, "+"} and bool(
            IMPROVES.search(text) or (not match["sign"] and GAINS.search(text) and not better_up)
        )
        missing = self.missing
        return Claim(
            text=" ".join(text.split())[:300],
            metric=metric,
            value_pct=printed if better_up or as_gain else -printed,
            hardware=", ".join(self.measured) or None,
            samples=self.samples,
            confirmed=confirmed,
            complete=not missing,
            missing=missing,
        )

    @cached_property
    def measured(self) -> tuple[str, ...]:
        """Return the accelerators that own measurements ran on."""
        return measured_on(self)

    @cached_property
    def missing(self) -> tuple[str, ...]:
        """Return what a claim of this description lacks to be judged."""
        have = {
            "hardware": bool(self.hardware),
            "baseline": any(BASELINE.search(line) for line in self.lines),
            "sample count": self.samples is not None,
            "raw runs": self.has_raw_runs,
            "noise or interval": has_noise_figure(self),
            "end-to-end figure": any(END_TO_END.search(line) for line in self.lines),
        }
        return tuple(name for name, there in have.items() if not there)


def count(text: str) -> int:
    """Return a number that is written in digits or as a word up to ten."""
    return WORDS.get(text.lower()) or int(text)


def precision(value: str) -> float:
    """Return how far a printed percentage may be from the exact one: half its last digit, and rounding."""
    return TOLERANCE if "." in value else 0.51


def measured_on(description: Description) -> tuple[str, ...]:
    """Return the accelerators that own measurements ran on, as far as the text says."""
    own = re.compile(
        r"\bnvidia\b|\blocal(?:ly)?\b|measured on|\bran on|tested on|this box|(?:hardware|gpu|machine)s?:",
        re.IGNORECASE,
    )
    foreign = re.compile(r"\bci\b|nightly|\bgap\b", re.IGNORECASE)
    found = [
        match[1]
        for line in description.lines
        if own.search(line) and not foreign.search(line)
        for match in GPUS.finditer(line)
    ]
    return tuple(dict.fromkeys(found))


def has_noise_figure(description: Description) -> bool:
    """Say whether the description gives its noise: a deviation, an interval or an A/A run."""
    figure = re.compile(
        r"±|\+/-|\bsd\b|\bstd\b|stdev|σ|\bcv\b|a/a\b|confidence|interval|noise (?:of|is|:)\s?~?\d",
        re.IGNORECASE,
    )
    return any(figure.search(line) for line in description.lines)
