"""Runs inside the sandbox with nothing but the standard library: times a revision's own function on request.

    python child.py MODULE:FUNCTION OPTIONS

OPTIONS is JSON: `{"workload": {...}, "warmup_requests": n}`. FUNCTION(workload) returns the request: a
callable without arguments that does the whole work (and waits for the accelerator). Should it have an
attribute `describe`, a callable too, its dictionary joins each result document (path_log, workload,
output_hash, stages_s, peak_memory_mb). Warm-up requests are made first and dropped; then `{"ready": true}` is
written, and each line `{"run": n}` on standard input is answered with one result document. Whatever the
revision prints goes to standard error.
"""

import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from typing import IO, Any


def main(arguments: list[str]) -> int:
    """Serve runs of one function until the input ends; return the exit code."""
    answers = private_output()
    try:
        options = json.loads(arguments[1])
        request = load(arguments[0])(options.get("workload", {}))
        for _ in range(options.get("warmup_requests", 1)):
            request()
    except Exception as error:
        answer(answers, {"error": f"{type(error).__name__}: {error}"[:500]})
        raise
    answer(answers, {"ready": True})
    for line in sys.stdin:
        answer(answers, run(request, int(json.loads(line)["run"])))
    return 0


def private_output() -> IO[str]:
    """Return the real standard output, and let `print` of the revision's code write to standard error."""
    descriptor = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(descriptor, "w", encoding="utf-8")


def load(entry: str) -> Callable[..., Any]:
    """Return the object that MODULE:FUNCTION names."""
    module, _, name = entry.partition(":")
    found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found  # type: ignore[return-value]


def run(request: Callable[[], Any], requests: int) -> dict[str, Any]:
    """Time each of `requests` calls in seconds; an exception becomes the document's `error`."""
    latencies = []
    try:
        for _ in range(requests):
            started = time.perf_counter()
            request()
            latencies.append(time.perf_counter() - started)
        description = describe(request)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:500]}
    return {**description, "latencies_s": latencies, "requested": requests, "completed": len(latencies)}


def describe(request: Callable[[], Any]) -> dict[str, Any]:
    """Return what the request says of itself, nothing where it says nothing."""
    described = getattr(request, "describe", None)
    return dict(described()) if callable(described) else {}


def answer(output: IO[str], document: dict[str, Any]) -> None:
    """Write one document as one line."""
    output.write(json.dumps(document) + "\n")
    output.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
