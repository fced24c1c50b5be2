"""Pages made from data: the reference of the op table."""
