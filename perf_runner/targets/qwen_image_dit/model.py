"""The model with random weights, and the fused projections that share storage with the separate ones."""

from typing import Any, cast

import torch
from torch import nn

from perf_runner.targets.qwen_image_dit.config import DitConfig
from prgate_kernels.fused_linear import QKV, fuse_shards

WEIGHT_SD = 0.02
STREAM_LAYERS = {
    "to_qkv": ("to_q", "to_k", "to_v"),
    "to_added_qkv": ("add_q_proj", "add_k_proj", "add_v_proj"),
}


def build_model(config: DitConfig, seed: int, device: torch.device, dtype: torch.dtype) -> Any:
    """Return diffusers' model with normal(0, 0.02) weights of a seed and norm weights about 1, fused QKV.

    Built without memory first: 20.43 B parameters take half a second on a GPU.
    """
    from diffusers import QwenImageTransformer2DModel
    from diffusers.models.transformers.transformer_qwenimage import QwenEmbedRope

    sizes = config.model_dump(exclude={"name"})
    with torch.device("meta"):
        model = QwenImageTransformer2DModel(**sizes)
    model = nn.Module.to(model, dtype=dtype).to_empty(device=device)
    model.pos_embed = QwenEmbedRope(theta=10000, axes_dim=list(config.axes_dims_rope), scale_rope=True)
    model.eval().requires_grad_(False)
    fill(model, seed, device)
    for block in model.transformer_blocks:
        fuse_projections(block.attn)
    return model


def fill(model: nn.Module, seed: int, device: torch.device) -> None:
    """Give every parameter its random values; the values depend on the seed and kind of device."""
    generator = torch.Generator(device=device).manual_seed(seed)
    for name, parameter in model.named_parameters():
        parameter.normal_(0.0, WEIGHT_SD, generator=generator)
        if "norm" in name and parameter.ndim == 1 and not name.endswith("bias"):
            parameter.add_(1.0)


def fuse_projections(attention: Any) -> None:
    """Add `to_qkv` and `to_added_qkv` to an attention layer; the separate layers become views of them."""
    for fused_name, names in STREAM_LAYERS.items():
        layers = [getattr(attention, name) for name in names]
        fused = nn.Linear(1, 1, bias=True, device="meta")
        for kind in ("weight", "bias"):
            shards = {key: getattr(layer, kind).data for key, layer in zip(QKV, layers, strict=True)}
            whole = fuse_shards(shards, QKV)
            setattr(fused, kind, nn.Parameter(whole, requires_grad=False))
            for layer, part in zip(layers, whole.chunk(3), strict=True):
                setattr(layer, kind, nn.Parameter(part, requires_grad=False))
        fused.in_features, fused.out_features = fused.weight.shape[1], fused.weight.shape[0]
        setattr(attention, fused_name, fused)


def count_parameters(model: nn.Module) -> int:
    """Return the number of distinct parameters: views that share storage count once."""
    storages = {p.untyped_storage().data_ptr(): p.untyped_storage().nbytes() for p in model.parameters()}
    size = next(model.parameters()).element_size()
    return cast(int, sum(storages.values()) // size)
