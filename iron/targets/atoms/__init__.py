"""Matrix and copy instructions of each vendor as data that checks itself."""
