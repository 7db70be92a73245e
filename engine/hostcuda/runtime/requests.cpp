// Single requests, for those who ask (hc_follow): which warp made the request of each access that took most, or all requests of
// one warp, in the order in which it made them.
#ifdef HOSTCUDA_CHECK
#include "parts.h"
#include <map>
#include <tuple>

namespace check {
namespace {

constexpr size_t most_requests = 50000;              // of a warp, in a launch

struct Worst {
    unsigned units = 0, warp = 0;
    Index block{};
};

struct Request {
    uint32_t pc, mask;
    Space space;
    Operation operation;
    unsigned size, units;
    uintptr_t address[warp_size];
};

struct Followed {
    Index block{};
    unsigned warp = 0;
    std::map<std::tuple<uint32_t, Space, Operation>, Worst> worst;
    std::vector<Request> requests;
} followed;

}  // namespace

void begin_requests() {
    followed.worst.clear();
    followed.requests.clear();
}

void note_request(uint32_t pc, Space space, Operation operation, unsigned size, const uintptr_t *address, uint32_t mask, unsigned units) {
    const Index &at = running.block, &block = followed.block;
    if (running.follows == worst_requests) {
        Worst &worst = followed.worst[{pc, space, operation}];
        if (units > worst.units) worst = {units, running.counted_warp, at};
    } else if (running.counted_warp == followed.warp && at.x == block.x && at.y == block.y && at.z == block.z) {
        if (followed.requests.size() == most_requests) running.follows = no_requests;
        Request request{pc, mask, space, operation, size, units, {}};
        for (unsigned l = 0; l < warp_size; l++) request.address[l] = address[l];
        followed.requests.push_back(request);
    }
}

std::string worst_text(uint32_t pc, Space space, Operation operation) {
    auto found = followed.worst.find({pc, space, operation});
    if (found == followed.worst.end()) return "";
    const Worst &worst = found->second;
    return format(",\"worst\":{\"units\":%u,\"warp\":%u,\"block\":[%u,%u,%u]}", worst.units, worst.warp, worst.block.x, worst.block.y,
                  worst.block.z);
}

std::string requests_text() {
    static const char *const spaces[] = {"global", "shared", "constant", "local"}, *const operations[] = {"ld", "st", "atom"};
    std::string text;
    for (const Request &r : followed.requests) {
        const Range *range = find(r.address[__builtin_ctz(r.mask)]);
        text += format("%s{\"pc\":%u,\"space\":\"%s\",\"op\":\"%s\",\"size\":%u,\"units\":%u,\"base\":%zu,\"bytes\":%zu,\"name\":\"%s\","
                       "\"addresses\":[", text.empty() ? "" : ",", r.pc, spaces[r.space], operations[r.operation], r.size, r.units,
                       range ? (size_t)range->low : 0, range ? range->bytes : 0, range && range->name ? range->name : "");
        for (unsigned l = 0; l < warp_size; l++)
            text += format(l ? ",%ld" : "%ld", r.mask >> l & 1 ? (long)r.address[l] : -1);
        text += "]}";
    }
    return text;
}

}  // namespace check

using namespace check;

// From the next launch on: with a warp, keep all its requests of that block; without (-1), the worst request of each access.
extern "C" EXPORT void hc_follow(const unsigned block[3], int warp) {
    followed.block = {block[0], block[1], block[2]};
    followed.warp = warp;
    running.will_follow = warp < 0 ? worst_requests : one_warp;
}
#endif
