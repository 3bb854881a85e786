/* libFuzzer target: messages of the store's services. What is taken is within its limits and is
 * written as it was. */
#include "../../handlers/storage/store_message.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    static struct store_message message;
    static uint8_t again[STORE_MESSAGE_BYTES];
    if (!store_message_read(&message, bytes, length))
        return 0;
    FUZZ_HOLDS(message.layouts <= STORE_MESSAGE_LAYOUTS && message.sums <= STORE_MESSAGE_SUMS,
               "counts are within their limits");
    for (uint32_t i = 0; i < message.layouts; i++) {
        const struct store_layout *l = &message.layout[i];
        FUZZ_HOLDS(l->first_sum + l->sums <= message.sums, "sums are the message's");
        FUZZ_HOLDS(l->from + l->part <= l->length, "a part is within its extent");
    }
    FUZZ_HOLDS(memchr(message.name, 0, sizeof message.name), "a name ends");
    FUZZ_HOLDS(store_message_write(&message, again, sizeof again) == length, "it has one form");
    FUZZ_HOLDS(memcmp(again, bytes, length) == 0, "which is the same");
    return 0;
}
