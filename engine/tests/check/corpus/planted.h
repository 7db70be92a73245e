// PLANTED(bug, fix): the bug, or, compiled with -DFIXED, its repair. The lines that a tool may name end in "// BUG".
#ifdef FIXED
#define PLANTED(bug, fix) fix
#else
#define PLANTED(bug, fix) bug
#endif
