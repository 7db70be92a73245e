// A line that ends here for one reader, and not for another: #include "/etc/passwd"
// ‮*/ #include "/etc/shadow" /*‬#include </etc/hostname>
#define у y
// ---
    у[0] = 0;
