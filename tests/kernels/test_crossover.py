"""The gate: where its threshold comes from, which side each count falls on, and what ran, by the path log."""

import json
from pathlib import Path

import pytest
import torch

from prgate_kernels import path_log
from prgate_kernels.crossover import (
    OWN_VARIABLE,
    UPSTREAM_VARIABLE,
    Calibration,
    calibrated_default,
    crossover_of,
    fuses,
    read_calibrations,
    resolve_min_tokens,
    store_calibration,
)
from prgate_kernels.qk_norm_rope import eager_qk_norm_rope, fused_qk_norm_rope


def gated(batch: int, sequence: int, environment: dict[str, str], device: torch.device) -> None:
    """Take one call as a model does: the threshold resolved once, then the path (on 4 of the tokens)."""
    x, weight = torch.zeros(4, 1, 2, device=device), torch.ones(2, device=device)
    table = torch.ones(4, 2, device=device)
    if fuses(batch, sequence, resolve_min_tokens(environment=environment)):
        fused_qk_norm_rope(x, x, weight, weight, table, 1e-6, interleaved=True)
    else:
        path_log.record("qk_norm_rope.eager:min_tokens")
        eager_qk_norm_rope(x, x, (weight, weight), table, 1e-6)


@pytest.mark.parametrize(
    ("batch", "sequence", "environment", "path"),
    [
        (1, 2047, {}, "qk_norm_rope.eager:min_tokens"),
        (1, 2048, {}, "qk_norm_rope.fused"),
        (2, 1024, {}, "qk_norm_rope.fused"),
        (2, 1023, {}, "qk_norm_rope.eager:min_tokens"),
        (1, 64, {OWN_VARIABLE: "0"}, "qk_norm_rope.fused"),
        (1, 64, {UPSTREAM_VARIABLE: "0"}, "qk_norm_rope.fused"),
        (1, 64, {OWN_VARIABLE: "65", UPSTREAM_VARIABLE: "0"}, "qk_norm_rope.eager:min_tokens"),
        (1, 64, {OWN_VARIABLE: " ", UPSTREAM_VARIABLE: "64"}, "qk_norm_rope.fused"),
    ],
)
def test_the_path_log_proves_which_side_of_the_gate_was_taken(
    batch: int, sequence: int, environment: dict[str, str], path: str, device: torch.device
) -> None:
    gated(batch, sequence, environment, device)
    assert path_log.snapshot() == {path: 1}


@pytest.mark.parametrize("text", ["-1", "2k", "1.5", "0x10", "²", "1" * 30, "+5"])
@pytest.mark.parametrize("variable", [OWN_VARIABLE, UPSTREAM_VARIABLE])
def test_anything_but_a_count_is_refused_with_the_variables_name(text: str, variable: str) -> None:
    with pytest.raises(ValueError, match=f"{variable} must be a non-negative integer"):
        resolve_min_tokens(environment={variable: text})


def test_the_real_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OWN_VARIABLE, "77")
    assert resolve_min_tokens() == 77


def test_the_crossover_is_where_fused_stops_losing() -> None:
    assert crossover_of({64: (10.0, 5.0), 128: (12.0, 5.0)}) == 0
    assert crossover_of({64: (10.0, 15.0), 128: (12.0, 13.0), 256: (20.0, 14.0)}) == 256
    assert crossover_of({64: (10.0, 15.0), 128: (12.0, 13.0)}) == 256
    assert crossover_of({64: (10.0, 10.1)}, slack=0.02) == 0


def test_a_calibration_holds_for_its_device_and_stack_alone(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "calibration.json"
    entry = Calibration("qk_norm_rope", 0, "card", "580", "2.11.0", "3.6.0")
    store_calibration(Calibration("qk_norm_rope", 512, "card", "570", "2.10.0", "3.5.0"), path)
    store_calibration(entry, path)
    assert read_calibrations(path) == [entry]
    assert calibrated_default("card", "2.11.0", "3.6.0", path) == 0
    assert calibrated_default("card", "2.12.0", "3.6.0", path) == 2048
    assert calibrated_default("other", "2.11.0", "3.6.0", path) == 2048


@pytest.mark.parametrize("text", ["", "{", "[1]", json.dumps([{"operator": "x"}])])
def test_a_damaged_calibration_is_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "calibration.json"
    path.write_text(text)
    assert read_calibrations(path) == []
    assert calibrated_default("card", "1", "1", path) == 2048


def test_the_path_log_counts_what_happened_inside_a_block() -> None:
    path_log.record("a")
    with path_log.counted() as inside:
        path_log.record("a")
        path_log.add({"b": 3})
    assert inside == {"a": 1, "b": 3}
    assert path_log.snapshot() == {"a": 2, "b": 3}
