/* libFuzzer target: whatever bytes come from a wire, they are refused, or one packet that encodes
 * to the same bytes. */
#include "fuzz.h"
#include "nic/wire.h"

#define MTU 1024

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct nic_pool *pool = NULL;
    FUZZ_CHECK(nic_pool_new(&pool, MTU, NULL) == 0);
    struct nic_packet *packet = nic_packet_new(pool);
    FUZZ_CHECK(packet != NULL);
    FUZZ_CHECK(wire_length(data, (uint32_t)size) <= size);
    if (!wire_decode(packet, MTU, data, size)) {
        FUZZ_CHECK(wire_length(data, (uint32_t)size) == size);
        uint8_t bytes[WIRE_HEADER_BYTES + MTU];
        FUZZ_CHECK(packet->bytes <= MTU);
        FUZZ_CHECK(nic_packet_bytes(packet) == size);
        FUZZ_CHECK(wire_encode(packet, bytes) == size);
        FUZZ_CHECK(memcmp(bytes, data, size) == 0);
    }
    nic_packet_release(packet);
    nic_pool_free(pool);
    return 0;
}
