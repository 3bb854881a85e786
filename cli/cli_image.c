#include "cli_card.h"

#include <stdio.h>

#include "base/json.h"

struct options {
    struct card_options card;
    bool json, all;
};

static const struct cli_option options[] = {
    {"json", 0, CLI_FLAG, NULL, "print JSON", offsetof(struct options, json), 0, 0},
    {"all", 0, CLI_FLAG, NULL, "list local functions too", offsetof(struct options, all), 0, 0},
    CARD_OPTIONS(struct options, card),
    {0}};

static uint32_t total_instructions(const struct spin_image_info *info) {
    uint32_t total = 0;
    for (int i = 0; i < SPIN_INSN_CLASSES; i++)
        total += info->instructions[i];
    return total;
}

static void print_use(const char *what, uint32_t used, uint32_t limit, const char *memory) {
    printf("%-12s %8u of %8u bytes %5.1f %%  %s\n", what, used, limit, 100.0 * used / limit,
           memory);
}

static void print_text(const struct spin_image_info *info, const struct spin_limits *limits,
                       bool all) {
    printf("%s: %shandler image, RV32IMAC%s, %s\n", info->path, info->is_pspin ? "PsPIN " : "",
           info->uses_float ? "F" : "",
           info->has_lines ? "with source lines" : "without source lines");
    print_use("code", info->code_bytes, limits->program_bytes, "program memory");
    uint32_t data = info->constant_bytes + info->data_bytes + info->zero_bytes;
    print_use("data", data, limits->handler_bytes, "L2 handler memory");
    printf("             constants %u, initialised %u, zeroed %u bytes\n", info->constant_bytes,
           info->data_bytes, info->zero_bytes);
    if (info->hpus)
        printf("%-12s %8u of %8u\n", "HPUs", limits->hpus, info->hpus);
    printf("%-12s %8u, %u compressed\n", "instructions", total_instructions(info),
           info->compressed);
    for (int i = 0; i < SPIN_INSN_CLASSES; i++)
        if (info->instructions[i])
            printf("  %-10s %8u\n", spin_insn_class_name((enum spin_insn_class)i),
                   info->instructions[i]);
    printf("\n%-34s %-11s %10s %7s\n", "handler", "kind", "address", "bytes");
    for (uint32_t i = 0; i < info->functions; i++) {
        const struct spin_function *f = &info->function[i];
        if (f->is_global || all)
            printf("%-34s %-11s 0x%08x %7u\n", f->name,
                   f->is_global ? card_kind_name(f->kind) : "local", f->address, f->bytes);
    }
}

static void print_json(const struct spin_image_info *info, const struct spin_limits *limits) {
    struct json j = {.out = stdout};
    json_object(&j, NULL);
    json_string(&j, "image", info->path);
    json_bool(&j, "pspin", info->is_pspin);
    json_bool(&j, "float", info->uses_float);
    json_bool(&j, "lines", info->has_lines);
    json_u64(&j, "code_bytes", info->code_bytes);
    json_u64(&j, "constant_bytes", info->constant_bytes);
    json_u64(&j, "data_bytes", info->data_bytes);
    json_u64(&j, "zero_bytes", info->zero_bytes);
    json_u64(&j, "hpus", info->hpus);
    json_u64(&j, "instructions", total_instructions(info));
    json_u64(&j, "compressed", info->compressed);
    json_object(&j, "by_class");
    for (int i = 0; i < SPIN_INSN_CLASSES; i++)
        json_u64(&j, spin_insn_class_name((enum spin_insn_class)i), info->instructions[i]);
    json_end_object(&j);
    json_object(&j, "limits");
    json_u64(&j, "program_bytes", limits->program_bytes);
    json_u64(&j, "handler_bytes", limits->handler_bytes);
    json_u64(&j, "hpus", limits->hpus);
    json_end_object(&j);
    json_array(&j, "functions");
    for (uint32_t i = 0; i < info->functions; i++) {
        const struct spin_function *f = &info->function[i];
        json_object(&j, NULL);
        json_string(&j, "name", f->name);
        json_string(&j, "kind", f->is_global ? card_kind_name(f->kind) : "local");
        json_u64(&j, "address", f->address);
        json_u64(&j, "bytes", f->bytes);
        json_end_object(&j);
    }
    json_end_array(&j);
    json_end_object(&j);
}

static int run(const struct cli_command *command, int argc, char **argv) {
    struct options o = {0};
    struct cli_list operands;
    struct spin_image *image = NULL;
    int status = cli_parse(command, argc, argv, &o, &operands);
    if (!status)
        status = card_load_image(command, &o.card, &operands, &image);
    if (!status) {
        struct spin_limits limits = card_limits(&o.card);
        if (o.json)
            print_json(spin_image_info(image), &limits);
        else
            print_text(spin_image_info(image), &limits, o.all);
    }
    spin_image_free(image);
    cli_free(command, &o, &operands);
    return status;
}

const struct cli_command cli_image = {
    .name = "image",
    .args = "IMAGE [options]",
    .summary = "check an image and print what is in it",
    .about =
        "Loads an image as a card would, and prints its handlers, sizes, instructions by class\n"
        "and how much of the card's limits it uses.",
    .options = options,
    .run = run,
};
