"""What the parity tests share."""

import torch

# The interpreter truncates fp32 to bf16 where a GPU rounds to nearest even, so one unit is allowed at each of
# the roundings of an operator; fp32 and fp16 are held to their own precision.
RELATIVE = {torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(dtype)


def table_of(tokens: int, width: int, seed: int = 9) -> torch.Tensor:
    angles = draw(tokens, width // 2, seed=seed)
    return torch.cat((angles.cos(), angles.sin()), dim=-1)


def error(value: torch.Tensor, reference: torch.Tensor) -> float:
    assert torch.isfinite(value).all()
    wanted = reference.detach().double()
    return float((value.detach().double() - wanted).norm() / wanted.norm())
