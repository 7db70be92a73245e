// Through the address of a local variable, which the compiler does not know: the address to which its function returns.
__device__ __noinline__ void won(float *y) { y[0] = 1; }
__device__ __noinline__ void smash(long with, int from)
{
    volatile long local = 1, *volatile at = &local;
    for (int i = from; i < from + 12; ++i) at[i] = with;
}
// ---
    smash((long)&won, H - 83 > 0 ? 1 : 2);
