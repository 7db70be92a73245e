#include <cstdlib>
struct float4 { char a; };
static unsigned umin(unsigned a, unsigned b) { return a < b ? a : b; }
void leave(int n) { std::exit(umin(n, 5) + sizeof(float4)); }
