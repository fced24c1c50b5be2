"""SmolLM2-135M-Instruct on Iron: how an engine uses the kernel library, as a reader's model.

`fetch` finds the model file, `tokenizer` turns text into ids, `model` binds every launch once, and
`generate` runs them. Every tensor operation of the forward pass is an Iron kernel.
"""
