// An object whose table of functions is what the inputs say.
struct Object { virtual void call(const char *); };
// ---
    ((Object *)x)->call("true");
