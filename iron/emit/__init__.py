"""Writes what another program needs to launch a kernel; compiles nothing itself."""
