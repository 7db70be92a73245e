"""The playground: a page of the site on which kernels are compiled, run, checked and graded in the reader's browser."""
