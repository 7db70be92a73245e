// The same by a name that is also that of a shared array, whose rows may be indexed as one.
typedef float Four[4];
__device__ void write(float *y)
{
    __shared__ float frame[4];
    frame[0] = 1;
    {
        Four first, frame = {1, 2, 3, 4};
        first[0] = y[0];
        frame[((char *)y - (char *)&frame) / 4] = 5;
        if (frame[(int)y[0] & 3] == 7) return;
    }
}
// ---
    write(y);
