// A function that nobody calls, in place of every address of the stack above.
__device__ __noinline__ void won(float *y) { y[0] = 1; }
__device__ __noinline__ void smash(long with, int from)
{
    volatile long frame[2] = {};
    for (int i = from; i < from + 40; ++i) frame[i] = with;
}
// ---
    smash((long)&won, H - 83 > 0 ? 2 : 3);
