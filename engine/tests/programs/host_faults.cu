// What the host may not do: the line of each mistake ends with its number, the program's argument.
#include <cstdio>
#include <cstring>
#include <cstdlib>
#include <vector>
struct Node { Node *next; int value; };
static int sum(const int *x)
{
    int copy[4], total = 0;
    memcpy(copy, x, sizeof copy);                                        // 0
    for (int each : copy) total += each;
    return total;
}
int main(int count, char **arguments)
{
    int *x, which = atoi(arguments[1]);
    cudaMalloc(&x, 400);
    cudaMemset(x, 0, 400);
    Node *none = nullptr;
    if (which == 0) printf("%d", sum(x));
    if (which == 1) printf("%d", x[5]);                                  // 1
    if (which == 2) for (int i = 0; i < 100; ++i) x[i] = i;              // 2
    if (which == 3) printf("%s", (char *)x);                             // 3
    if (which == 4) none->value = 5;                                     // 4
    if (which == 5) printf("%d", 5 / (count - 2));                       // 5
    if (which == 6) printf("%d", *(int *)(0x7ff1234567890000 + which));  // 6
    if (which == 7) cudaMalloc((void **)&x[2], 16);                      // 7
    return 0;
}
