"""Data about the machines Iron compiles for; no code generation and no device access."""
