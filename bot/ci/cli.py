"""The command `verdict`: judges one snapshot, or a folder of them against labels; mounts `backfill` too."""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from bot.ci.backfill_cli import backfill

if TYPE_CHECKING:
    from bot.ci.verdict import Verdict

FINDING = 1
SIZE_LIMIT = 512 * 1024**2
CALLS = ("regression", "unrelated", "unknown", "green")


def mount(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command("verdict")(verdict)
    app.command("backfill")(backfill)


def verdict(
    snapshot: str = typer.Argument(help="A CI snapshot as JSON, - for standard input, or a folder of them."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON document on standard output."),
    labels: str = typer.Option("", help="A file of right answers; prints the confusion table of a folder."),
) -> None:
    """Say whose each failure of a red head is; exit 0 for unrelated or green, else 1."""
    if snapshot != "-" and Path(snapshot).is_dir():
        judge_folder(Path(snapshot), labels, as_json)
        return
    if labels:
        raise typer.BadParameter("--labels needs a folder of snapshots, not one file")
    found = judge_text(read(snapshot), snapshot)
    typer.echo(json.dumps(found.to_contract(), indent=2) if as_json else in_words(found))
    if found.overall in {"regression", "unknown"}:
        raise typer.Exit(FINDING)


def read(name: str) -> str:
    """Return a file's text; BadParameter, one line, where it cannot be read."""
    try:
        raw = sys.stdin.buffer.read(SIZE_LIMIT) if name == "-" else read_file(Path(name))
    except OSError as error:
        raise typer.BadParameter(f"{name}: {error.strerror or error}") from None
    return raw.decode("utf-8-sig", errors="replace")


def read_file(path: Path) -> bytes:
    """Return a file's bytes; OSError for one that is too large."""
    with path.open("rb") as stream:
        raw = stream.read(SIZE_LIMIT + 1)
    if len(raw) > SIZE_LIMIT:
        raise OSError(0, f"larger than {SIZE_LIMIT // 1024**2} MiB")
    return raw


def judge_text(text: str, name: str) -> "Verdict":
    """Return the verdict on a snapshot's text; BadParameter where it is none."""
    from bot.ci.snapshot import SnapshotError, parse_snapshot
    from bot.ci.verdict import judge

    try:
        return judge(parse_snapshot(text, name))
    except SnapshotError as error:
        raise typer.BadParameter(str(error)) from None


def judge_folder(folder: Path, labels: str, as_json: bool) -> None:
    """Judge every snapshot of a folder; with labels, exit 1 where a regression was called unrelated."""
    wanted = read_labels(labels) if labels else {}
    found = dict(verdicts(folder))
    document: dict[str, Any] = {"verdicts": {stem: one.to_contract() for stem, one in found.items()}}
    table = confusion(found, wanted) if wanted else {}
    if wanted:
        document["table"] = table
    if as_json:
        typer.echo(json.dumps(document, indent=2))
    else:
        show_folder(found, wanted, table)
    if wanted and table["regressions_called_unrelated"]:
        raise typer.Exit(FINDING)


def verdicts(folder: Path) -> Iterator[tuple[str, "Verdict"]]:
    """Yield stem and verdict of each snapshot; other JSON is skipped with a line on stderr."""
    from bot.ci.snapshot import is_snapshot

    for path in sorted(folder.glob("*.json")):
        text = read(str(path))
        try:
            looks_right = is_snapshot(json.loads(text))
        except (ValueError, RecursionError):
            looks_right = False
        if looks_right:
            yield path.stem, judge_text(text, str(path))
        else:
            typer.echo(f"prgate: {path.name} is no snapshot (no schema and jobs): skipped", err=True)


def read_labels(name: str) -> Mapping[str, Mapping[str, Any]]:
    """Return stem -> right answer; BadParameter for another form."""
    try:
        found = json.loads(read(name))
    except (ValueError, RecursionError):
        raise typer.BadParameter(
            f"{name} is no JSON; expected {{stem: {{verdict, acceptable, …}}}}"
        ) from None
    if not isinstance(found, dict) or not all(isinstance(one, dict) for one in found.values()):
        raise typer.BadParameter(f"{name} must map each stem to {{verdict, acceptable, …}}")
    return found


def confusion(found: Mapping[str, "Verdict"], wanted: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return how the verdicts stand against the right answers: counts by wanted and given, and the bars."""
    known = {stem: one for stem, one in found.items() if stem in wanted}
    counts: dict[str, dict[str, int]] = {}
    for stem, one in known.items():
        row = counts.setdefault(str(wanted[stem].get("verdict")), dict.fromkeys(CALLS, 0))
        row[one.overall] += 1

    def named(label: str, given: str) -> list[str]:
        return [s for s, one in known.items() if wanted[s].get("verdict") == label and one.overall == given]

    firm = [s for s in known if wanted[s].get("verdict") == "unrelated" and not wanted[s].get("soft")]
    must = [s for s in known if list(wanted[s].get("acceptable") or ()) == ["regression"]]
    kinds = {s: {one.kind for one in found[s].failures} for s in firm if found[s].overall == "unrelated"}
    right_kinds = sum(wanted[stem].get("kind") in given for stem, given in kinds.items())
    return {
        "counts": counts,
        "regressions_called_unrelated": named("regression", "unrelated"),
        "unrelated_called_regression": named("unrelated", "regression"),
        "unrelated_found": f"{sum(found[s].overall == 'unrelated' for s in firm)} of {len(firm)}",
        "unrelated_with_right_kind": f"{right_kinds} of {len(kinds)}",
        "regressions_found": f"{sum(found[s].overall == 'regression' for s in must)} of {len(must)}",
        "not_acceptable": [
            s for s in known if known[s].overall not in (wanted[s].get("acceptable") or CALLS)
        ],
    }


def show_folder(
    found: Mapping[str, "Verdict"], wanted: Mapping[str, Mapping[str, Any]], table: Mapping[str, Any]
) -> None:
    """Print a table of a folder's verdicts, and the bars."""
    from rich.console import Console
    from rich.table import Table

    rows = Table("snapshot", "verdict", "kind", *(("wanted",) if wanted else ()))
    for stem, one in found.items():
        kinds = ", ".join(sorted({failure.kind for failure in one.failures if failure.kind}))
        label = (str(wanted.get(stem, {}).get("verdict", "")),) if wanted else ()
        rows.add_row(stem, one.overall, kinds, *label)
    console = Console()
    console.print(rows)
    for name, value in table.items():
        console.print(f"{name.replace('_', ' ')}: {value}", markup=False)


def in_words(found: "Verdict") -> str:
    """Return a verdict as lines for a person."""
    lines = [f"{found.overall}: {len(found.failures)} failures in {len(found.groups)} groups"]
    for group in found.groups:
        kind = f" ({group.kind})" if group.kind else ""
        lines.append(f"- {group.verdict}{kind}: {group.count} in {', '.join(group.jobs[:5])}")
        lines += [f"    {one.says}" for one in group.evidence[:5]]
        lines += [f"    next: {group.would_settle_it}"] if group.would_settle_it else []
    return "\n".join(lines)
