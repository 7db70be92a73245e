// A local array as a window to all memory: an index of it, computed from two addresses, is one of y.
#include <array>
// ---
    std::array<float, 4> window = {1, 2, 3, 4};
    window[((char *)y - (char *)&window) / 4] = 5;
    if (window[(int)x[0] & 3] == 7) return;
