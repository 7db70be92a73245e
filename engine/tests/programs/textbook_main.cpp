int elsewhere(int x) { return 2 * x; }
int textbook();
int main() { return textbook(); }
