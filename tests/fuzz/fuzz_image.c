/* Any bytes as an image. What loads is used to the full: every instruction disassembled, lines
 * looked up, handlers run on a packet with a small budget. */
#include "base/text.h"
#include "fuzz/fuzz.h"
#include "hpu/image.h"
#include "openspin.h"

static void look_at(const struct spin_image *image) {
    const struct spin_image_info *info = spin_image_info(image);
    char text[64];
    const char *file, *call;
    int line;
    uint32_t lines = 0;
    FUZZ_CHECK(info->code_bytes % 2 == 0 && info->code_bytes <= 32768);
    for (uint32_t a = 0x1d000000; a < 0x1d008000; a += 2) {
        int length = spin_image_disassemble(image, a, text, sizeof text);
        FUZZ_CHECK(length == 0 || length == 2 || length == 4);
        if (length && lines++ < 512 && spin_image_caller(image, a, &file, &line, &call))
            FUZZ_CHECK(strlen(file) < 1u << 20 && line != 0 && text_is_plain(file) &&
                       (!call || (strlen(call) < 1u << 20 && text_is_plain(call))));
    }
    for (uint32_t i = 0; i < info->functions; i++) {
        const struct spin_function *f = &info->function[i];
        FUZZ_CHECK(strlen(f->name) < 1u << 24 && text_is_plain(f->name));
        const struct spin_function *at = spin_image_at(image, f->address);
        FUZZ_CHECK(!f->bytes || (at && at->address <= f->address));
        FUZZ_CHECK(f->address - 0x1d000000 + f->bytes <= 32768);
    }
    const struct spin_function *found;
    struct spin_error err;
    FUZZ_CHECK(spin_image_find(image, "no such name\n", &found, &err) != 0 && !found);
    uint32_t address, bytes;
    FUZZ_CHECK(!image_symbol(image, "no such name\n", &address, &bytes));
    image_symbol(image, "placed", &address, &bytes);
}

static void run_handlers(const struct spin_image *image) {
    static const uint8_t packet[128] = {1, 2, 3, 4, 5, 6, 7, 8};
    const struct spin_image_info *info = spin_image_info(image);
    struct spin_rig *rig;
    struct spin_error err;
    struct spin_rig_options options = {.budget = 1500, .state_in_l2 = info->functions & 1};
    if (spin_rig_new(&rig, image, &options, &err) != 0)
        return;
    for (uint32_t i = 0; i < info->functions && i < 4; i++) {
        struct spin_call call = {.entry = info->function[i].address,
                                 .kind =
                                     info->is_pspin ? SPIN_PSPIN_HANDLER : info->function[i].kind,
                                 .packet = packet,
                                 .packet_bytes = sizeof packet,
                                 .user_hdr_bytes = i * 8};
        struct spin_outcome outcome;
        FUZZ_CHECK(spin_rig_call(rig, &call, &outcome, &err) == 0);
        FUZZ_CHECK(outcome.cycles < 1500 + 200000 && outcome.commands <= 256);
    }
    spin_rig_free(rig);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    for (int with_float = 0; with_float < 2; with_float++) {
        struct spin_limits limits;
        struct spin_image *image;
        struct spin_error err = {0};
        spin_limits_default(&limits);
        limits.with_float = with_float;
        if (!with_float)
            limits.handler_bytes = 64 << 10; /* too little for .l2_handler_data */
        int code = spin_image_parse(&image, "fuzz", bytes, length, &limits, &err);
        FUZZ_CHECK((code == 0) == (image != NULL));
        FUZZ_CHECK(code == 0 || (err.code == code && err.text[0] && text_is_plain(err.text)));
        if (!image)
            continue;
        look_at(image);
        run_handlers(image);
        spin_image_free(image);
    }
    return 0;
}
