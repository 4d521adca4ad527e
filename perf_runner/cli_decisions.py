"""The commands that read data already measured: `gate`, `compare`, `nightly`, `changes`."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from typing import TYPE_CHECKING, Any

import typer
from pydantic import BaseModel

from perf_runner.bench_app import bench_app

if TYPE_CHECKING:
    from perf_runner.history.baselines import Baseline
    from perf_runner.history.series import Series

JSON_HELP = "Print one JSON document on standard output and nothing else there."


def mount(app: typer.Typer) -> None:
    """Add the deciding commands to `app`."""
    for command in (gate, compare, nightly, changes):
        app.command(command.__name__)(command)
    bench_app.command("accept")(accept)


@contextmanager
def usage_errors() -> Iterator[None]:
    """Turn a ValueError over what was handed in into one line and exit code 2."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def print_document(value: BaseModel | Mapping[str, Any]) -> None:
    """Print one value as one JSON document."""
    if isinstance(value, BaseModel):
        typer.echo(value.model_dump_json(indent=2))
    else:
        typer.echo(json.dumps(value, indent=2, default=str, allow_nan=False))


def say(text: str) -> None:
    """Print one line of foreign text without its control characters."""
    typer.echo("".join(character if character.isprintable() else "?" for character in text))


def gate(
    blocks: str = typer.Argument(
        ..., help='One block a line: {"base": [s, s], "head": [s, s]}; - for stdin.'
    ),
    json_: bool = typer.Option(False, "--json", help=JSON_HELP),
    margin: float | None = typer.Option(
        None, help="Slowdown that still passes, as a fraction. Default: by noise."
    ),
    alpha: float = typer.Option(0.03, help="One-sided level of the lower bound."),
    max_blocks: int = typer.Option(10, help="Accepted blocks after which it ends inconclusive."),
) -> None:
    """Feed blocks one by one to the sequential gate; exit 0 for no regression, else 1."""
    from perf_runner.blocks_file import parse_blocks, settings_for
    from perf_runner.gate import replay
    from perf_runner.models import Outcome
    from perf_runner.reading import read_text

    with usage_errors():
        file = parse_blocks(read_text(blocks), blocks)
        decided = replay(file.blocks, settings_for(file, margin, alpha, max_blocks))
    decision = decided.conclude("the blocks ended before a decision; more of them may decide")
    if json_:
        print_document(decision)
    else:
        typer.echo(f"{decision.decision.value.replace('_', ' ')}: {decision.why}")
    raise typer.Exit(0 if decision.decision is Outcome.NO_REGRESSION else 1)


def compare(
    base: str = typer.Argument(..., help="The base's result file; - for stdin."),
    head: str = typer.Argument(..., help="The head's result file."),
    json_: bool = typer.Option(False, "--json", help=JSON_HELP),
) -> None:
    """Set two result files side by side; exit 1 where some case did not do the same work."""
    from perf_runner.compare import compare as side_by_side
    from perf_runner.compare import parse_results
    from perf_runner.reading import read_text

    with usage_errors():
        found = side_by_side(*(parse_results(read_text(name), name) for name in (base, head)))
    if json_:
        print_document(found)
    else:
        for row in found.rows:
            numbers = f"{row.base:g} -> {row.head:g}  {row.improvement_pct:+.2f} %"
            say(f"{row.test}  {row.config}  {row.metric}  {numbers}")
        for line in found.unequal_work:
            say(f"unequal work: {line}")
    raise typer.Exit(1 if found.unequal_work else 0)


def accept(
    result: str = typer.Argument(..., help="A result or acceptance record as JSON; - for stdin."),
    json_: bool = typer.Option(False, "--json", help=JSON_HELP),
) -> None:
    """Check a result against the performance-acceptance list; exit 1 when something is missing."""
    from perf_runner.acceptance import accept as judge
    from perf_runner.evidence import read_evidence
    from perf_runner.reading import read_text

    with usage_errors():
        found = [(name, judge(evidence)) for name, evidence in read_evidence(read_text(result), result)]
    accepted = all(one.accepted for _, one in found)
    if json_ and len(found) == 1:
        print_document(found[0][1])
    elif json_:
        results = [{"name": name, **one.model_dump()} for name, one in found]
        print_document({"accepted": accepted, "results": results})
    else:
        for name, one in found:
            say(f"{name}: {'accepted' if one.accepted else 'not accepted'}")
            for check in one.checks:
                say(f"  {'ok' if check.passed else 'missing'}  {check.check}: {check.says}")
                for line in check.missing:
                    say(f"      - {line}")
    raise typer.Exit(0 if accepted else 1)


def nightly(
    rows: str = typer.Argument(..., help="CSV, Markdown tables, or a result file; - for stdin."),
    json_: bool = typer.Option(False, "--json", help=JSON_HELP),
) -> None:
    """Read nightly rows into episodes; exit 1 when something fails."""
    from perf_runner.history.episodes import episodes
    from perf_runner.history.report import nightly_document
    from perf_runner.history.results import rows_of_results
    from perf_runner.history.rows import parse_rows
    from perf_runner.reading import read_text

    with usage_errors():
        text = read_text(rows)
        is_json = text.lstrip()[:1] in ("[", "{")
        parsed, left_out = (rows_of_results(text, rows), []) if is_json else parse_rows(text, rows)
    found = episodes(parsed)
    if json_:
        print_document(nightly_document(parsed, left_out, found))
    else:
        for one in found:
            days = f"{one.days_failing} day" + ("s" if one.days_failing != 1 else "")
            say(f"{one.test}  {one.config}  {one.worst_pct:+.1f} %  {days}  {one.next_step}")
            for note in one.notes:
                say(f"    {note}")
        for line in left_out:
            say(f"left out: {line}")
    raise typer.Exit(1 if found else 0)


def changes(
    series: str = typer.Argument(..., help="CSV with a column date and a column a metric; - for stdin."),
    metric: str = typer.Option(..., help="The column to read."),
    baseline: float | None = typer.Option(None, help="A baseline to examine, in the column's unit."),
    since: str | None = typer.Option(None, help="First night for which that baseline is in force."),
    window: str | None = typer.Option(None, help="Nights that it was taken from: 2026-06-01:2026-06-08."),
    json_: bool = typer.Option(False, "--json", help=JSON_HELP),
) -> None:
    """Find change points, alarms and stalls in one series of nights."""
    from perf_runner.history.report import changes_document
    from perf_runner.history.series import choose, parse_table, request_summaries
    from perf_runner.reading import read_text

    with usage_errors():
        table = parse_table(read_text(series), series)
        chosen = choose(table, metric, series)
        document = changes_document(chosen, request_summaries(table, metric))
        if baseline is not None:
            document["baseline"] = examined(chosen, as_baseline(baseline, window), since)
    if json_:
        print_document(document)
    else:
        for point in document["points"]:
            say(f"{point['date']}  {point['before']:g} -> {point['after']:g}  {point['change_pct']:+.1f} %")
        for alarm in document["alarms"]:
            say(f"alarm {alarm['date']}  {alarm['raised_by']}  z {alarm['z']:+.1f}  since {alarm['since']}")
        for line in [*document["notes"], *document.get("baseline", [])]:
            say(line["says"])


def as_baseline(value: float, window: str | None) -> "Baseline":
    """Return the baseline that the options describe; ValueError for a window that is none."""
    from perf_runner.history.baselines import Baseline

    if value <= 0:
        raise ValueError("--baseline must be above 0")
    if window is None:
        return Baseline(value)
    first, _, last = window.partition(":")
    return Baseline(value, window=(day(first, "--window"), day(last, "--window")))


def day(text: str, option: str) -> date:
    """Return a date of the form 2026-06-01; ValueError names the option."""
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"{option}: {text[:30]!r} is no date of the form 2026-06-01") from error


def examined(series: "Series", baseline: "Baseline", since: str | None) -> list[dict[str, str]]:
    """Return what is wrong with a baseline."""
    from perf_runner.history.baselines import examine
    from perf_runner.history.changes import way_of

    start = day(since, "--since") if since else None
    found = examine(baseline, series, way_of(series), start)
    return [{"kind": one.kind, "says": one.says} for one in found]
