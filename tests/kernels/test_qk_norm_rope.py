"""The Q/K operator: parity with fp64, the paths it takes and says, and the input it refuses."""

import pytest
import torch

from prgate_kernels import path_log
from prgate_kernels.qk_norm_rope import (
    eager_qk_norm_rope,
    fused_qk_norm_rope,
    joint_qk_norm_rope_,
    pack_norm_weights,
    rms_norm,
    rotate_complex,
    rotate_table,
)
from prgate_kernels.rope_table import joint_table, pack_frequencies, without_batch

EPS = 1e-6
# The interpreter truncates fp32 to bf16 where a GPU rounds to nearest even, so one unit is allowed at each
# rounding of the operator; fp32 and fp16 are held to their own precision.
RELATIVE = {torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}
DTYPES = tuple(RELATIVE)


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def table_of(tokens: int, width: int) -> torch.Tensor:
    angles = draw(tokens, width // 2, seed=9)
    return torch.cat((angles.cos(), angles.sin()), dim=-1)


def error(value: torch.Tensor, reference: torch.Tensor) -> float:
    assert torch.isfinite(value).all()
    return float((value.double() - reference.double()).norm() / reference.double().norm())


def reference(x: torch.Tensor, weight: torch.Tensor, table: torch.Tensor, interleaved: bool) -> torch.Tensor:
    """Return the operator in fp64, written without any of the operator's code."""
    x = x.double()
    x = x / (x.pow(2).mean(-1, keepdim=True) + EPS).sqrt() * weight.double()
    half = table.shape[-1] // 2
    angle = torch.complex(table[:, :half].double(), table[:, half:].double())[:, None]
    rotary, rest = x[..., : 2 * half], x[..., 2 * half :]
    if interleaved:
        turned = torch.view_as_complex(rotary.unflatten(-1, (half, 2)).contiguous()) * angle
        return torch.cat((torch.view_as_real(turned).flatten(-2), rest), dim=-1)
    turned = torch.complex(rotary[..., :half], rotary[..., half:]) * angle
    return torch.cat((turned.real, turned.imag, rest), dim=-1)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize(("head_dim", "rotary"), [(128, 96), (64, 64), (80, 40), (256, 2)])
def test_one_stream_matches_fp64(
    dtype: torch.dtype, interleaved: bool, head_dim: int, rotary: int, device: torch.device
) -> None:
    q, k = draw(7, 6, head_dim, dtype=dtype), draw(7, 2, head_dim, seed=1, dtype=dtype)
    weights = [(1 + 0.2 * draw(head_dim, seed=s)).to(dtype) for s in (2, 3)]
    table = table_of(7, rotary)
    on = [x.to(device) for x in (q, k, *weights, table)]
    got = fused_qk_norm_rope(on[0], on[1], on[2], on[3], on[4], EPS, interleaved=interleaved)
    assert path_log.snapshot() == {"qk_norm_rope.fused": 1}
    for out, x, weight in zip(got, (q, k), weights, strict=True):
        assert out.dtype == dtype
        assert error(out.cpu(), reference(x, weight, table, interleaved)) < RELATIVE[dtype]


def test_strided_views_of_a_projection_are_read_where_they_lie(device: torch.device) -> None:
    """The q and k of a fused projection are views; a transposed last axis is one too."""
    qkv = draw(5, 3, 4, 32).to(device)
    weight, table = torch.ones(32, device=device), table_of(5, 32).to(device)
    q, k = qkv[:, 0], qkv[:, 1].transpose(1, 2).contiguous().transpose(1, 2)
    got = fused_qk_norm_rope(q, k, weight, weight, table, EPS, interleaved=True)
    assert not q.is_contiguous()
    assert not k.is_contiguous()
    for out, x in zip(got, (q, k), strict=True):
        assert error(out.cpu(), reference(x.cpu(), weight.cpu(), table.cpu(), True)) < 2e-6


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("batch", "text", "image"), [(1, 3, 5), (2, 4, 9), (1, 0, 6), (1, 6, 0)])
def test_the_joint_form_matches_fp64_and_leaves_v_alone(
    dtype: torch.dtype, batch: int, text: int, image: int, device: torch.device
) -> None:
    heads, head_dim = 5, 32
    qkv = draw(batch, text + image, 3, heads, head_dim, dtype=dtype)
    weights = [(1 + 0.2 * draw(head_dim, seed=s)).to(dtype) for s in range(4)]
    packed = pack_norm_weights((weights[0], weights[1]), (weights[2], weights[3]))
    table = table_of(text + image, head_dim)
    buffer = qkv.clone().to(device)
    joint_qk_norm_rope_(buffer, packed.to(device), table.to(device), text, EPS)
    assert path_log.snapshot() == {"qk_norm_rope.joint.fused": 1}
    out = buffer.cpu()
    assert torch.equal(out[:, :, 2], qkv[:, :, 2])
    for sample in range(batch):
        for which in (0, 1):
            x = qkv[sample, :, which]
            wanted = torch.cat(
                (
                    reference(x[:text], weights[which], table[:text], True),
                    reference(x[text:], weights[2 + which], table[text:], True),
                )
            )
            assert error(out[sample, :, which], wanted) < 1.5 * RELATIVE[dtype]


def test_the_eager_form_equals_diffusers_bit_by_bit() -> None:
    """The unfused order of diffusers: two roundings in the norm, complex fp32 rotation, one at its end."""
    from diffusers.models.normalization import RMSNorm
    from diffusers.models.transformers.transformer_qwenimage import apply_rotary_emb_qwen

    x = draw(2, 6, 3, 32, dtype=torch.bfloat16)
    norm = RMSNorm(32, eps=EPS).requires_grad_(False)
    norm.weight.data = (1 + 0.2 * draw(32, seed=4)).bfloat16()
    frequencies = torch.polar(torch.ones(6, 16), draw(6, 16, seed=5))
    wanted = apply_rotary_emb_qwen(norm(x), frequencies, use_real=False)
    normed = rms_norm(x, norm.weight.data, EPS, two_roundings=True)
    assert torch.equal(rotate_complex(normed, frequencies), wanted)
    turned = rotate_table(normed, pack_frequencies(frequencies), interleaved=True)
    assert error(turned, wanted) < 1e-5


def test_on_a_device_without_kernels_the_eager_path_is_taken_and_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    x, weight, table = draw(4, 2, 16), torch.ones(16), table_of(4, 16)
    got = fused_qk_norm_rope(x, x, weight, weight, table, EPS)
    assert torch.equal(got[0], eager_qk_norm_rope(x, x, (weight, weight), table, EPS, interleaved=False)[0])
    assert path_log.snapshot() == {"qk_norm_rope.eager:device": 1}


def test_what_the_kernel_does_not_support_takes_the_eager_path_and_says_why(device: torch.device) -> None:
    wide, ones = draw(3, 2, 320).to(device), torch.ones(320, device=device)
    fused_qk_norm_rope(wide, wide, ones, ones, table_of(3, 64).to(device), EPS)
    exact, one = draw(3, 2, 16).double().to(device), ones[:16].double()
    fused_qk_norm_rope(exact, exact, one, one, table_of(3, 16).to(device), EPS)
    odd = draw(1, 4, 3, 2, 24).to(device)
    joint_qk_norm_rope_(odd, torch.ones(2, 2, 24, device=device), table_of(4, 24).to(device), 1, EPS)
    assert path_log.snapshot() == {
        "qk_norm_rope.eager:head_dim": 1,
        "qk_norm_rope.eager:dtype": 1,
        "qk_norm_rope.joint.eager:head_dim": 1,
    }


def test_a_table_with_a_batch_axis_is_taken_only_when_it_is_equal_over_the_batch() -> None:
    table = table_of(3, 8)
    same = torch.stack((table, table))
    assert torch.equal(without_batch(same, 6), table.repeat(2, 1))
    with pytest.raises(ValueError, match="differs over its batch axis"):
        without_batch(torch.stack((table, table + 1)), 6)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"q": draw(4, 32)}, "q and k must be"),
        ({"k": draw(5, 2, 16)}, "agree in tokens and head_dim"),
        ({"k": draw(4, 2, 16).half()}, "agree in dtype"),
        ({"k": draw(4, 3, 16)}, "multiple of k's"),
        ({"q_weight": torch.ones(8)}, "q_weight must be"),
        ({"k_weight": torch.ones(8)}, "k_weight must be"),
        ({"rope_table": table_of(3, 16)}, "must have 4 rows"),
        ({"rope_table": table_of(4, 32)}, "rotary_dim must be even"),
        ({"rope_table": table_of(4, 16).double()}, "must be float32"),
        ({"rope_table": draw(16)}, "must be \\[tokens, rotary_dim\\]"),
    ],
)
def test_wrong_input_is_refused_by_name(change: dict[str, torch.Tensor], says: str) -> None:
    given = {
        "q": draw(4, 4, 16),
        "k": draw(4, 2, 16),
        "q_weight": torch.ones(16),
        "k_weight": torch.ones(16),
        "rope_table": table_of(4, 16),
    } | change
    with pytest.raises(ValueError, match=says):
        fused_qk_norm_rope(**given, eps=EPS)


def test_a_wrong_joint_buffer_is_refused_by_name() -> None:
    qkv, weights, table = draw(1, 4, 3, 2, 16), torch.ones(2, 2, 16), table_of(4, 16)
    turned = draw(1, 3, 4, 2, 16).transpose(1, 2)
    assert turned.shape == qkv.shape
    for given, says in (
        ((qkv[:, :, :2], weights, table, 1), "qkv must be"),
        ((turned, weights, table, 1), "qkv must be"),
        ((qkv, weights[0], table, 1), "weights must be"),
        ((qkv, weights, table[:3], 1), "table must be"),
        ((qkv, weights, table.half(), 1), "table must be float32"),
        ((qkv, weights, table, 5), "text_tokens must be"),
    ):
        with pytest.raises(ValueError, match=says):
            joint_qk_norm_rope_(*given, EPS)


def test_frequencies_become_one_packed_table() -> None:
    text, image = (torch.polar(torch.ones(n, 4), draw(n, 4)) for n in (2, 3))
    table = joint_table(text, image)
    assert table.shape == (5, 8)
    assert table.dtype == torch.float32
    assert torch.equal(table[2:, :4], image.real)
    with pytest.raises(ValueError, match="must be complex"):
        pack_frequencies(table)
