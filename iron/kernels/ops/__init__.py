"""Elementwise, moving and reducing kernels."""
