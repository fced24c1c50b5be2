"""The intermediate representation: typed, structured, write-once SSA and its meaning."""
