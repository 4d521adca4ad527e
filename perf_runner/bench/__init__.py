"""The benchmarks of the fused operators and of the Qwen-Image DiT: cases, tables, and a small server."""
