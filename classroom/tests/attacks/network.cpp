// A route to other machines, a server of this one, packets by hand, the kernel's own sockets.
#include <arpa/inet.h>
#include <dirent.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

static bool reached()
{
    for (int family : {AF_INET, AF_INET6, AF_PACKET, AF_ALG, AF_VSOCK}) {
        const int raw = socket(family, SOCK_RAW, 1), udp = socket(family, SOCK_DGRAM, 0);
        if (raw >= 0 && family == AF_PACKET) return true;
        sockaddr_in to = {};
        to.sin_family = AF_INET, to.sin_port = htons(53), inet_pton(AF_INET, "192.0.2.1", &to.sin_addr);
        if (udp >= 0 && family == AF_INET && !connect(udp, (sockaddr *)&to, sizeof to)) return true;
    }
    char names[1 << 12];
    ifconf all = {};
    all.ifc_len = sizeof names, all.ifc_buf = names;
    const int any = socket(AF_UNIX, SOCK_STREAM, 0);
    for (int i = 2; any >= 0 && i < 64; ++i)
        if (char name[IF_NAMESIZE]; if_indextoname(i, name) && name[0] == 'e') return true;
    return false;
}
