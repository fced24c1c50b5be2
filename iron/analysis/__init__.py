"""What is known about a kernel without running it: uniformity, effects, ranges, checks."""
