// std::beta and the other special functions of C++17, which math.h leaves out, for programs that name one: they are
// templates, which the compiler would work on for each program otherwise.
#pragma once
#if __has_include(<bits/specfun.h>)
#define _GLIBCXX_USE_STD_SPEC_FUNCS 1
#include <bits/specfun.h>
#endif
