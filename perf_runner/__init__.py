"""Measures two revisions on one host and decides by statistics; knows the kernels, not the web."""
