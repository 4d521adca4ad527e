"""The Qwen-Image DiT with random weights: its paths from eager to CUDA graph, and its denoise loop."""
