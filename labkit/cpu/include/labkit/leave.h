// For files of a program that are C++ alone: exit() ends the program as in its CUDA files (host.h).
#pragma once
#include <stdlib.h>
[[noreturn]] void labkit_exit(int status);
namespace std {
using ::labkit_exit;
}
#define exit(status) labkit_exit(status)
