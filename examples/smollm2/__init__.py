"""SmolLM2-135M-Instruct on Iron, as a model of how an engine uses the kernel library."""
