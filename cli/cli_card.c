#include "cli_card.h"

#include <stdio.h>
#include <string.h>

#include "base/units.h"

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

/* Clusters of 8, as PsPIN's, if that goes, else the largest that they can be shared out to. */
int card_set_hpus(struct spin_card *card, uint64_t hpus, struct spin_error *err) {
    char text[60];
    uint64_t each = 8;
    while (hpus % each)
        each--;
    snprintf(text, sizeof text, "cluster_hpus=%llu", (unsigned long long)each);
    int code = spin_card_set(card, text, err);
    snprintf(text, sizeof text, "clusters=%llu", (unsigned long long)(hpus / each));
    return code ? code : spin_card_set(card, text, err);
}

int card_set_cycle(struct spin_card *card, uint64_t cycle_ps, struct spin_error *err) {
    char text[60];
    snprintf(text, sizeof text, "cycle=%llups", (unsigned long long)cycle_ps);
    return spin_card_set(card, text, err);
}

int card_set_rate(struct spin_card *card, uint64_t bits_per_s, struct spin_error *err) {
    struct spin_parameter row;
    char text[60];
    uint64_t has, wants;
    snprintf(text, sizeof text, "%llubit/s", (unsigned long long)bits_per_s);
    for (int i = 0; spin_card_parameter(card, i, &row); i++)
        if (strcmp(row.name, "network_rate") == 0 && units_per_byte_fs(row.value, &has) &&
            units_per_byte_fs(text, &wants) && has <= wants)
            return SPIN_OK;
    snprintf(text, sizeof text, "network_rate=%llubit/s", (unsigned long long)bits_per_s);
    return spin_card_set(card, text, err);
}

static int set_parameter(void *card, const char *assignment, struct spin_error *err) {
    return spin_card_set(card, assignment, err);
}

int card_apply_params(const struct cli_command *command, const struct params *params,
                      struct spin_card *card) {
    return params_apply(command, params, set_parameter, card);
}

void card_print_parameters(const struct spin_card *card) {
    struct spin_parameter row;
    for (int i = 0; spin_card_parameter(card, i, &row); i++)
        params_print(&row);
}

void card_show_progress(struct progress *p, enum spin_card_stage stage, uint64_t done,
                        uint64_t of) {
    static const char *const what[] = {
        [SPIN_CARD_MEASURES] = "packets, to measure messages", [SPIN_CARD_RUNS] = "packets"};
    progress_show(p, what[stage], done, of);
}

const char *card_kind_name(enum spin_handler_kind kind) {
    static const char *const names[] = {"header",  "payload",  "completion",
                                        "cleanup", "function", "pspin"};
    return names[kind];
}
