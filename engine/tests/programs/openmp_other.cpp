#include <omp.h>
int other() { return omp_get_thread_num(); }
