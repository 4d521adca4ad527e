"""Sizes of the model and of the work; pure, without torch."""

import hashlib
import json

from pydantic import Field

from perf_runner.models import Frozen

PIXELS_PER_TOKEN = 16  # the VAE's factor of 8, patches of 2


class DitConfig(Frozen):
    """The hyper-parameters of `QwenImageTransformer2DModel` that set its size."""

    name: str
    num_layers: int
    num_attention_heads: int
    attention_head_dim: int
    joint_attention_dim: int
    axes_dims_rope: tuple[int, int, int]
    in_channels: int = 64
    out_channels: int = 16
    patch_size: int = 2

    @property
    def width(self) -> int:
        """Return the width of the hidden state."""
        return self.num_attention_heads * self.attention_head_dim

    def digest(self) -> str:
        """Return a hash of the whole configuration."""
        return digest(self.model_dump(mode="json"))


REAL = DitConfig(
    name="qwen-image",
    num_layers=60,
    num_attention_heads=24,
    attention_head_dim=128,
    joint_attention_dim=3584,
    axes_dims_rope=(16, 56, 56),
)
SMALL = DitConfig(
    name="qwen-image-small",
    num_layers=2,
    num_attention_heads=2,
    attention_head_dim=32,
    joint_attention_dim=48,
    axes_dims_rope=(8, 12, 12),
)
CONFIGS = {config.name: config for config in (REAL, SMALL)}


class Workload(Frozen):
    """One request: an image's size in pixels, its steps, and all else that fixes the work."""

    width: int = Field(default=512, ge=32, le=4096, multiple_of=16)
    height: int = Field(default=512, ge=32, le=4096, multiple_of=16)
    steps: int = Field(default=20, ge=1, le=200)
    text_tokens: int = Field(default=128, ge=1, le=1024)
    true_cfg_scale: float = Field(default=4.0, ge=1.0, le=100.0)
    seed: int = Field(default=0, ge=0, lt=2**31)
    dtype: str = Field(default="bfloat16", pattern="^(bfloat16|float16|float32)$")

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Return frames, rows and columns of tokens."""
        return 1, self.height // PIXELS_PER_TOKEN, self.width // PIXELS_PER_TOKEN

    @property
    def image_tokens(self) -> int:
        """Return the number of image tokens."""
        return self.image_shape[1] * self.image_shape[2]

    @property
    def tokens(self) -> int:
        """Return text and image tokens of one sample."""
        return self.text_tokens + self.image_tokens


def digest(value: object) -> str:
    """Return a short SHA-256 of a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
