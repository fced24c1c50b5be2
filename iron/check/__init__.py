"""Checks of kernels against their oracles: cases, power of a case, mutations, random programs."""
