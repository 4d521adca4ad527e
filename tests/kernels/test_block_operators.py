"""The other fused patterns of the block: parity, rounding boundary, layouts, refusals."""

from functools import partial

import pytest
import torch

from prgate_kernels import path_log
from prgate_kernels.adaln import Rows, eager_norm_modulate, norm_modulate
from prgate_kernels.fused_linear import (
    QKV,
    fuse_checkpoint,
    fuse_shards,
    project_into,
    shard_for_rank,
    split_sizes,
)
from prgate_kernels.gated_residual_norm import gated_residual_norm_modulate_
from prgate_kernels.modulation_cache import ModulationCache, ModulationKey
from prgate_kernels.registry import SPECS
from prgate_kernels.swiglu import eager_linear_gelu, linear_gelu, swiglu

EPS = 1e-6
RELATIVE = {torch.float32: 2e-6, torch.float16: 1.5e-3, torch.bfloat16: 1.2e-2}


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def error(value: torch.Tensor, reference: torch.Tensor) -> float:
    assert torch.isfinite(value).all()
    return float((value.double() - reference.double()).norm() / reference.double().norm())


@pytest.mark.parametrize("dtype", RELATIVE, ids=str)
@pytest.mark.parametrize(("samples", "text", "image", "width"), [(1, 3, 4, 48), (2, 2, 5, 64), (3, 0, 2, 7)])
def test_residual_norm_and_modulation_match_fp64(
    dtype: torch.dtype, samples: int, text: int, image: int, width: int, device: torch.device
) -> None:
    """Every sample and stream takes its own modulation; poisoned outputs are wholly written."""
    rows = Rows(samples, text, image)
    hidden, branch = draw(rows.total, width, dtype=dtype), draw(rows.total, width, seed=1, dtype=dtype)
    shift, scale, gate = (0.3 * draw(3, 2, samples, width, seed=2)).to(dtype)
    wide = hidden.double()
    lines = [per_row(values.double(), rows) for values in (shift, scale, gate)]
    wide = wide + lines[2] * branch.double()
    centred = wide - wide.mean(-1, keepdim=True)
    normed = centred / (centred.pow(2).mean(-1, keepdim=True) + EPS).sqrt()
    wanted = normed * (1 + lines[1]) + lines[0]

    moved = hidden.clone().to(device)
    out = torch.full_like(moved, torch.nan)
    got = gated_residual_norm_modulate_(
        moved, branch.to(device), gate.to(device), (shift.to(device), scale.to(device)), rows, EPS, out=out
    )
    assert got is out
    assert error(moved.cpu(), wide) < RELATIVE[dtype]
    assert error(out.cpu(), wanted) < RELATIVE[dtype]
    assert path_log.snapshot() == {"gated_residual_norm.fused": 1}


def per_row(values: torch.Tensor, rows: Rows) -> torch.Tensor:
    """Return one line a row, written out token by token."""
    text = [values[0, sample] for sample in range(rows.samples) for _ in range(rows.text_tokens)]
    image = [values[1, sample] for sample in range(rows.samples) for _ in range(rows.image_tokens)]
    return torch.stack(text + image)


def test_the_norm_reads_the_residual_as_it_was_stored(device: torch.device) -> None:
    """The fused sum is rounded to bf16 before the norm: the same rows give the same norm on their own."""
    rows = Rows(1, 2, 6)
    hidden, branch = (draw(8, 96, seed=s, dtype=torch.bfloat16).to(device) for s in (0, 1))
    mods = (0.3 * draw(3, 2, 1, 96, seed=2)).bfloat16().to(device)
    got = gated_residual_norm_modulate_(hidden, branch, mods[2], (mods[0], mods[1]), rows, EPS)
    assert torch.equal(got, norm_modulate(hidden, (mods[0], mods[1]), rows, EPS))


def test_modulations_are_read_as_views_and_broadcast(device: torch.device) -> None:
    rows = Rows(2, 3, 4)
    hidden = draw(14, 32).to(device)
    packed = draw(2, 2, 6, 32, seed=3).to(device)
    shift, scale = packed[:, :, 0], packed[:, :, 1]
    got = norm_modulate(hidden, (shift, scale), rows, EPS)
    assert error(got, eager_norm_modulate(hidden, shift, scale, rows, EPS)) < 2e-6
    one = (shift[:1, :1], scale[:1, :1])
    assert error(norm_modulate(hidden, one, rows, EPS), eager_norm_modulate(hidden, *one, rows, EPS)) < 2e-6
    assert path_log.snapshot() == {"adaln.fused": 2}


def test_a_modulation_that_cannot_be_read_in_place_takes_the_eager_path(device: torch.device) -> None:
    rows = Rows(1, 1, 2)
    turned = draw(2, 8, 3).to(device).transpose(1, 2)[:, :1]
    norm_modulate(draw(3, 8).to(device), (turned, turned), rows, EPS)
    assert path_log.snapshot() == {"adaln.eager:layout": 1}


def test_wrong_rows_are_refused_by_name() -> None:
    rows, mods = Rows(1, 1, 2), draw(2, 1, 8)
    with pytest.raises(ValueError, match="hidden must be"):
        norm_modulate(draw(4, 8), (mods, mods), rows, EPS)
    with pytest.raises(ValueError, match="scale must be"):
        norm_modulate(draw(3, 8), (mods, draw(2, 2, 8)), rows, EPS)
    with pytest.raises(ValueError, match="gate must be"):
        gated_residual_norm_modulate_(draw(3, 8), draw(3, 8), draw(2, 1, 4), (mods, mods), rows, EPS)
    with pytest.raises(ValueError, match="branch must be"):
        gated_residual_norm_modulate_(draw(3, 8), draw(3, 4), mods, (mods, mods), rows, EPS)


@pytest.mark.parametrize("dtype", RELATIVE, ids=str)
@pytest.mark.parametrize(("rows", "width"), [(3, 40), (2, 1030), (0, 8)])
def test_swiglu_matches_fp64(dtype: torch.dtype, rows: int, width: int, device: torch.device) -> None:
    gate_up = draw(rows, 2 * width, dtype=dtype)
    got = swiglu(gate_up.to(device)).cpu()
    gate, up = gate_up.double().chunk(2, dim=-1)
    assert got.shape == (rows, width)
    if rows:
        assert error(got, gate * torch.sigmoid(gate) * up) < RELATIVE[dtype]
    with pytest.raises(ValueError, match="gate_up must be"):
        swiglu(draw(2, 5))


def test_linear_gelu_matches_its_reference_and_refuses_what_does_not_fit(device: torch.device) -> None:
    x, weight, bias = (v.to(device) for v in (draw(5, 16), draw(24, 16, seed=1), draw(24, seed=2)))
    out = torch.full((5, 24), torch.nan, device=device)
    assert linear_gelu(x, weight, bias, out) is out
    assert error(out, eager_linear_gelu(x.double(), weight.double(), bias.double())) < 1e-4
    with pytest.raises(ValueError, match="do not fit"):
        linear_gelu(x, weight, bias[:3])


def test_every_registered_operator_stays_within_its_tolerance(device: torch.device) -> None:
    """Fused against eager, fp32: the two differ by the order of a sum at the most."""
    for spec in SPECS.values():
        wanted = spec.eager(spec.make_inputs(4, 1, device, torch.float32))
        got = spec.fused(spec.make_inputs(4, 1, device, torch.float32))
        assert error(got, wanted) < 3e-6, spec.name
        assert spec.bytes_moved(4) > 0


def test_a_fused_projection_is_the_separate_ones_in_order() -> None:
    shards = {name: draw(n, 8, seed=n) for name, n in (("k", 4), ("v", 5), ("q", 6))}
    fused = fuse_shards(shards, QKV)
    assert torch.equal(fused[:6], shards["q"])
    assert torch.equal(fused[10:], shards["v"])
    with pytest.raises(ValueError, match=r"missing \['v'\]"):
        fuse_shards({name: shards[name] for name in ("q", "k")}, QKV)
    with pytest.raises(ValueError, match=r"not known \['w'\]"):
        fuse_shards({**shards, "w": shards["q"]}, QKV)
    with pytest.raises(ValueError, match="input width"):
        fuse_shards({**shards, "v": draw(5, 9)}, QKV)


def test_each_rank_gets_its_part_of_every_shard() -> None:
    shards = {name: draw(n, 3, seed=n) for name, n in (("q", 8), ("k", 4), ("v", 4))}
    parts = [shard_for_rank(shards, QKV, rank, 2) for rank in range(2)]
    assert parts[0].shape == (8, 3)
    assert torch.equal(parts[1][:4], shards["q"][4:])
    assert torch.equal(parts[1][4:6], shards["k"][2:])
    assert split_sizes([8, 4, 4], 4) == (2, 1, 1)
    with pytest.raises(ValueError, match="do not divide"):
        split_sizes([8, 4, 4], 3)
    with pytest.raises(ValueError, match="rank must be"):
        shard_for_rank(shards, QKV, 2, 2)


def test_a_checkpoint_is_fused_whole_or_refused() -> None:
    groups = {"attn.qkv": ["attn.q", "attn.k", "attn.v"], "mlp.gate_up": ["mlp.gate", "mlp.up"]}
    state = {f"attn.{n}.{kind}": draw(2, 2) for n in "qkv" for kind in ("weight", "bias")} | {
        "other": draw(1)
    }
    fused = fuse_checkpoint(state, groups)
    assert set(fused) == {"attn.qkv.weight", "attn.qkv.bias", "other"}
    del state["attn.k.bias"]
    with pytest.raises(ValueError, match=r"attn\.k\.bias"):
        fuse_checkpoint(state, groups)


def test_a_projection_writes_into_its_rows_and_no_others() -> None:
    buffer = torch.full((6, 5), -7.0)
    x, weight, bias = draw(2, 3), draw(5, 3, seed=1), draw(5, seed=2)
    project_into(x, weight, bias, buffer[2:4])
    assert torch.allclose(buffer[2:4], x @ weight.T + bias, atol=1e-6)
    assert (buffer[:2] == -7).all()
    assert (buffer[4:] == -7).all()
    with pytest.raises(ValueError, match="rows must be"):
        project_into(x, weight, bias, buffer[:3])


def key(sigma: float, adapter: str = "", dtype: str = "bf16") -> ModulationKey:
    return ModulationKey("model", (sigma,), "cpu", dtype, adapter)


def test_the_modulation_cache_computes_once_and_keeps_to_its_bound() -> None:
    cache = ModulationCache(max_bytes=3 * 16)
    made: list[float] = []

    def make(value: float) -> torch.Tensor:
        made.append(value)
        return torch.full((4,), value)

    for sigma in (1.0, 0.5, 1.0, 0.25, 1.0):
        assert float(cache.get(key(sigma), partial(make, sigma))[0]) == sigma
    assert made == [1.0, 0.5, 0.25]
    cache.get(key(0.1), lambda: make(0.1))  # the fourth: the least recently used goes
    assert len(cache) == 3
    assert cache.bytes == 48
    cache.get(key(0.5), lambda: make(0.5))
    assert made[-1] == 0.5
    assert path_log.snapshot() == {"modulation.computed": 5, "modulation.cached": 2}


def test_a_modulation_of_another_adapter_or_dtype_is_another_entry() -> None:
    cache = ModulationCache(1 << 20)
    for entry in (key(1.0), key(1.0, adapter="style"), key(1.0, dtype="fp16")):
        cache.get(entry, lambda: torch.zeros(2))
    assert len(cache) == 3
    cache.drop_adapter("style")
    assert len(cache) == 2
    cache.clear()
    assert cache.bytes == 0


def test_an_entry_above_the_bound_is_given_but_not_kept() -> None:
    cache = ModulationCache(8)
    assert cache.get(key(1.0), lambda: torch.zeros(100)).shape == (100,)
    assert len(cache) == 0
    with pytest.raises(ValueError, match="max_bytes"):
        ModulationCache(-1)
