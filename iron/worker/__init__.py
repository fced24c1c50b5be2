"""Processes that run kernels on behalf of a command, so that no kernel can end the command."""
