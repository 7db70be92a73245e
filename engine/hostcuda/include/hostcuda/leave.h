// For files of a program that are C++ alone: exit() ends the program as in its CUDA files (host.h).
#pragma once
#include <stdlib.h>
[[noreturn]] void hostcuda_exit(int status);
namespace std {
using ::hostcuda_exit;
}
#define exit(status) hostcuda_exit(status)
