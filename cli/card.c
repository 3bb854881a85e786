#include "card.h"

struct spin_limits card_limits(const struct card_options *card) {
    struct spin_limits limits;
    spin_limits_default(&limits);
    if (card->program_bytes)
        limits.program_bytes = (uint32_t)card->program_bytes;
    if (card->handler_bytes)
        limits.handler_bytes = (uint32_t)card->handler_bytes;
    if (card->hpus)
        limits.hpus = (uint32_t)card->hpus;
    limits.with_float = card->with_float;
    return limits;
}

int card_load_image(const struct cli_command *command, const struct card_options *card,
                    const struct cli_list *operands, struct spin_image **image) {
    *image = NULL;
    if (operands->count == 0)
        return cli_error(command, CLI_USAGE, "no image; make one with 'openspin cc handler.c'");
    if (operands->count > 1)
        return cli_error(command, CLI_USAGE, "one image at a time: '%s' is too many",
                         operands->items[1]);
    struct spin_limits limits = card_limits(card);
    struct spin_error err;
    int code = spin_image_load(image, operands->items[0], &limits, &err);
    return code ? cli_report(command, &err) : 0;
}

const char *card_kind_name(enum spin_handler_kind kind) {
    static const char *const names[] = {"header", "payload", "completion", "function", "pspin"};
    return names[kind];
}
