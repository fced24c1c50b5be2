"""From images to tokens."""
