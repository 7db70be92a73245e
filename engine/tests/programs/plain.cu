// Ends by way of a function in plain.cpp, which is plain C++: it defines what CUDA files have built in.
#include <cstdio>
void leave(int);
__global__ void f() { printf("kernel\n"); }
int main() { f<<<1, 1>>>(); leave(umin(7u, 9u)); }
