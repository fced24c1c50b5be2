"""Writing and reading key and value caches."""
