// C++ without exceptions: classes and templates, no constructors that would have to run on the
// card.
#include <spin/handler.h>

namespace {
template <typename T> struct Greatest {
    T value;
    void see(T candidate) {
        if (candidate > value)
            value = candidate;
    }
};
} // namespace

__handler int greatest_payload_handler(const ptl_payload_t p, void *state) {
    auto *greatest = static_cast<Greatest<uint32_t> *>(state);
    auto *words = reinterpret_cast<const uint32_t *>(p.base);
    for (uint32_t i = 0; i < p.length / 4; i++)
        greatest->see(words[i]);
    return SUCCESS;
}
