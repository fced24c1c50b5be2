"""Times kernels beside their limits and their peers; nothing here decides what is right."""
