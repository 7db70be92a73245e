"""From a source to a compiled module: nvcc's options, the text for the host's compiler, the cache."""
