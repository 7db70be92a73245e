"""Thread loops: rewrite a kernel so that it runs all threads of a block by itself (``engine/docs/execution.md``).

A kernel's second version is called once per block. It is split at its barriers into regions, and
each region is in a loop over the threads. Variables are:

uniform     one per block, or per warp where a warp runs alone: computed once, outside of the loops over the threads
recomputed  constants such as ``row = blockIdx.y * 16 + threadIdx.y``: their declaration is repeated in each region
kept        those that live across a barrier: an array with an element per thread
local       all others: in one region

What is taken to be the same for all threads, or never to change, is declared const in the second
version, so that the compiler proves it: a kernel whose second version does not compile runs on
fibers.

The modules, in the order in which a kernel goes through them: `words` and `reader` (statements),
`file` (what the source declares), `order` (calls that come before their statement), `inline`
(functions that wait), `exchange` (warp functions among them), `effects` (how variables are used),
`refusals` (what keeps a kernel on fibers), `direct` (kernels without barriers), `steps` (a kernel
as steps), `uniform`, `regions`, `rows` and `writer`; `versions` calls them.
"""
