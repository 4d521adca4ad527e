"""The commands `bench list`, `bench run`, `bench serve-dit` and `calibrate`."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perf_runner.bench_app import bench_app

if TYPE_CHECKING:
    from perf_runner.bench.world import World

GROUP = "qwen-image"
TABLE_NAMES = ("forward", "denoise", "denoise-1024", "operators", "trajectory", "steps")
INFRASTRUCTURE = 3


def mount(app: typer.Typer) -> None:
    """Add the commands to `app` and to its group `bench`."""
    bench_app.command("list")(list_cases)
    bench_app.command("run")(run)
    bench_app.command("serve-dit")(serve_dit)
    app.command("calibrate")(calibrate)


def suite_names() -> list[str]:
    """Return the cases of the suite, by their full names."""
    from perf_runner.cases import load_suite

    suite = Path(__file__).resolve().parents[1] / "suites" / "qwen_image.json"
    return [f"{entry.case.test_name}/{entry.case.name}" for entry in load_suite(suite)]


def list_cases(as_json: bool = typer.Option(False, "--json", help="Print one JSON document.")) -> None:
    """List the cases and tables that `bench run` knows."""
    tables = [f"{GROUP}-{name}" for name in TABLE_NAMES]
    if as_json:
        typer.echo(json.dumps({"cases": suite_names(), "tables": tables, "groups": [GROUP]}))
        return
    typer.echo(f"{GROUP}: every table of the kernel page")
    for name in [*tables, *suite_names()]:
        typer.echo(name)


def run(
    cases: Annotated[list[str], typer.Argument(help="Cases, tables, or qwen-image for all tables.")],
    path: str = typer.Option("auto", help="eager, fused, auto (obeys the crossover), or a path by name."),
    size: str = typer.Option("auto", help="real (needs a GPU), small, or auto."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON document."),
    out: str | None = typer.Option(
        None, help="A file for cases; a folder for tables, which are then resumed."
    ),
) -> None:
    """Run cases or tables on this machine."""
    tables, wanted = plan(cases)
    world = open_or_refuse(size)
    document: dict[str, Any] = {"schema": 1}
    if tables:
        folder = Path(out or "bench-results")
        document["tables"] = run_tables(world, tables, folder)
    if wanted:
        document["cases"] = run_cases(world, wanted, path)
        if out is not None and not tables:
            write(Path(out), document["cases"][0] if len(wanted) == 1 else document["cases"])
    show(document, as_json)


def plan(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the tables and the full names of the cases that were asked for; a bad name is refused."""
    tables: list[str] = []
    wanted: list[str] = []
    known = suite_names()
    for name in names:
        matching = [full for full in known if name in (full, full.partition("/")[2])]
        if name == GROUP:
            tables += TABLE_NAMES
        elif name.removeprefix(f"{GROUP}-") in TABLE_NAMES:
            tables.append(name.removeprefix(f"{GROUP}-"))
        elif matching:
            wanted.append(matching[0])
        else:
            raise typer.BadParameter(f"no case or table is named {name[:100]!r}; see `prgate bench list`")
    return list(dict.fromkeys(tables)), list(dict.fromkeys(wanted))


def open_or_refuse(size: str) -> "World":
    """Return the model and its paths; exit 2 for a wrong size, 3 where packages are missing."""
    try:
        from perf_runner.bench.world import open_world

        return open_world(size)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    except ImportError as error:
        typer.echo(f"the benchmark needs torch and diffusers: {error}; install prgate[gpu]", err=True)
        raise typer.Exit(INFRASTRUCTURE) from error


def run_tables(world: "World", names: Sequence[str], folder: Path) -> dict[str, Any]:
    """Return the tables; one whose file is there already, of the same machine and model, is not run again."""
    from perf_runner.bench.page import render_all
    from perf_runner.bench.tables import REPEATS, TABLES
    from perf_runner.bench.world import environment

    stamp = {"environment": environment(world), "model_config_hash": world.config.digest()}
    found = {}
    for name in names:
        kept = read_table(folder / f"{name}.json", stamp)
        if kept is None:
            typer.echo(f"{name} …", err=True)
            begin = time.monotonic()
            table = TABLES[name](world, REPEATS.get(name, 5))
            kept = {"schema": 1, "table": name, **stamp, **table}
            kept["took_s"] = round(time.monotonic() - begin, 1)
            write(folder / f"{name}.json", kept)
        found[name] = kept
    write_text(folder / "tables.md", render_all(found))
    return found


def read_table(path: Path, stamp: dict[str, Any]) -> dict[str, Any] | None:
    """Return a finished table of the same stamp; None for none, another machine's, or a damaged one."""
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    same = isinstance(table, dict) and all(table.get(key) == value for key, value in stamp.items())
    return table if same else None


def run_cases(world: "World", names: Sequence[str], path: str) -> list[dict[str, Any]]:
    """Return the record of every case."""
    from perf_runner.bench.case_run import full_name, run_case, suite_cases
    from perf_runner.targets.qwen_image_dit.paths import PathUnavailableError

    by_name = {full_name(entry.case): entry.case for entry in suite_cases()}
    found = []
    for name in names:
        typer.echo(f"{name} …", err=True)
        try:
            found.append(run_case(world, by_name[name], path))
        except PathUnavailableError as error:
            raise typer.BadParameter(str(error)) from error
    return found


def show(document: dict[str, Any], as_json: bool) -> None:
    """Print the document, or a short table of it."""
    if as_json:
        typer.echo(json.dumps(document, default=str))
        return
    from perf_runner.bench.page import render_all, render_case

    if "tables" in document:
        typer.echo(render_all(document["tables"]))
    for record in document.get("cases", []):
        typer.echo(render_case(record))


def write(path: Path, document: Any) -> None:
    """Write a document as JSON."""
    write_text(path, json.dumps(document, indent=1, default=str) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text; a place that cannot be written to is refused in one line."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be written: {error.strerror}") from error


def serve_dit(
    port: int = typer.Option(8000, min=0, max=65535, help="0 picks a free port, which is printed."),
    host: str = typer.Option("127.0.0.1", help="The address to listen on."),
    size: str = typer.Option("auto", help="real (needs a GPU), small, or auto."),
    path: str = typer.Option("auto", help="eager, fused, auto, or a path by name."),
) -> None:
    """Serve images of the DiT over HTTP, in the form of vllm-omni's image endpoint."""
    world = open_or_refuse(size)
    from perf_runner.bench.serve_dit import serve

    try:
        serve(world, path, host, port)
    except OSError as error:
        raise typer.BadParameter(f"{host}:{port} cannot be used: {error.strerror}") from error


def calibrate(
    as_json: bool = typer.Option(False, "--json", help="Print one JSON document."),
    out: str | None = typer.Option(None, help="Store it here and not where the operators read it."),
) -> None:
    """Find from how many tokens on each fused operator never loses here, and store it."""
    try:
        from perf_runner.bench.calibrate import calibrate as sweep
        from prgate_kernels.crossover import calibration_path, store_calibration
    except ImportError as error:
        typer.echo(f"calibration needs torch: {error}; install prgate[gpu]", err=True)
        raise typer.Exit(INFRASTRUCTURE) from error
    entries, document = sweep()
    path = Path(out) if out is not None else calibration_path()
    try:
        for entry in entries:
            store_calibration(entry, path)
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be written: {error.strerror}") from error
    if as_json:
        typer.echo(json.dumps({**document, "stored": str(path)}))
        return
    for entry in entries:
        typer.echo(f"{entry.operator}: fused from {entry.min_tokens} tokens on, on {entry.device}")
