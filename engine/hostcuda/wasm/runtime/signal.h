// What the runtime knows of signals, where there are none. The numbers are those of Linux.
#pragma once

#include <__typedef_sigset_t.h>

struct siginfo_t {};
enum { SIGILL = 4, SIGABRT = 6, SIGBUS = 7, SIGFPE = 8, SIGSEGV = 11 };
