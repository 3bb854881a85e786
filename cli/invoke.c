#include "invoke.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/rng.h"
#include "base/units.h"

#define MOST_INPUT (1u << 30)

/* Bytes from a file, from hexadecimal digits, or none. */
static int read_bytes(const struct cli_command *command, const char *what, const char *file,
                      const char *hex, const char *hex_option, uint8_t **bytes, size_t *length) {
    struct spin_error err;
    *bytes = NULL;
    *length = 0;
    if (file && hex)
        return cli_error(command, CLI_USAGE, "--%s: the %s is given as a file already", hex_option,
                         what);
    if (file)
        return file_read(file, what, MOST_INPUT, bytes, length, &err) ? cli_report(command, &err)
                                                                      : 0;
    if (!hex)
        return 0;
    long count = units_hex(hex, NULL, 0);
    if (count < 0)
        return cli_error(command, CLI_USAGE, "--%s: '%.40s' is not pairs of hexadecimal digits",
                         hex_option, hex);
    *bytes = malloc((size_t)count + 1);
    if (!*bytes)
        return cli_error(command, CLI_FAILED, "out of memory");
    *length = (size_t)units_hex(hex, *bytes, count);
    return 0;
}

static int make_packet(const struct cli_command *command, const struct invoke_options *o,
                       struct invocation *inv) {
    size_t length;
    if (o->packet_bytes && (o->packet || o->hex))
        return cli_error(command, CLI_USAGE, "--packet-size: the packet is given already");
    int status = read_bytes(command, "packet", o->packet, o->hex, "hex", &inv->packet, &length);
    if (status)
        return status;
    if (!o->packet && !o->hex) {
        length = o->packet_bytes ? o->packet_bytes : 512;
        inv->packet = malloc(length);
        if (!inv->packet)
            return cli_error(command, CLI_FAILED, "out of memory");
        struct rng r = rng_seeded(o->seed ? o->seed : 1);
        for (size_t i = 0; i < length; i++)
            inv->packet[i] = (uint8_t)rng_u64(&r);
    }
    if (length > UINT32_MAX)
        return cli_error(command, CLI_USAGE, "packet of %zu bytes is too long", length);
    inv->call.packet = inv->packet;
    inv->call.packet_bytes = (uint32_t)length;
    return 0;
}

static int pick_kind(const struct cli_command *command, const struct invoke_options *o,
                     struct invocation *inv) {
    inv->call.kind =
        spin_image_info(inv->image)->is_pspin ? SPIN_PSPIN_HANDLER : inv->function->kind;
    if (!o->kind)
        return 0;
    for (int k = SPIN_HEADER_HANDLER; k <= SPIN_PSPIN_HANDLER; k++)
        if (strcmp(o->kind, card_kind_name((enum spin_handler_kind)k)) == 0) {
            inv->call.kind = (enum spin_handler_kind)k;
            return 0;
        }
    return cli_error(
        command, CLI_USAGE,
        "--kind: '%s' is none of header, payload, completion, cleanup, function, pspin", o->kind);
}

/* The arguments of a function that is no handler: as given, or packet, length and state. */
static int set_arguments(const struct cli_command *command, const struct invoke_options *o,
                         struct invocation *inv) {
    static const char *const usual[] = {"packet", "length", "state"};
    const char *const *list = o->arguments.count ? o->arguments.items : usual;
    int count = o->arguments.count ? o->arguments.count : 3;
    if (count > 8)
        return cli_error(command, CLI_USAGE, "--arg: %d arguments, 8 are the limit", count);
    uint32_t bytes, packet, state;
    spin_rig_memory(inv->rig, SPIN_PACKET, &bytes, &packet);
    spin_rig_memory(inv->rig, SPIN_STATE, &bytes, &state);
    for (int i = 0; i < count; i++) {
        uint64_t value;
        if (strcmp(list[i], "packet") == 0)
            value = packet;
        else if (strcmp(list[i], "state") == 0)
            value = state;
        else if (strcmp(list[i], "length") == 0)
            value = inv->call.packet_bytes;
        else if (!units_u64(list[i], &value) || value > UINT32_MAX)
            return cli_error(command, CLI_USAGE,
                             "--arg: '%s' is no 32-bit number, 'packet', 'length' or 'state'",
                             list[i]);
        inv->call.argument[i] = (uint32_t)value;
    }
    return 0;
}

static int make_rig(const struct cli_command *command, const struct invoke_options *o,
                    struct invocation *inv, size_t state_length, size_t host_length) {
    struct spin_rig_options options = {
        .core = o->core,
        .functional = o->functional,
        .check = o->check,
        .budget = o->watchdog,
        .hpu = (uint32_t)o->hpu,
        .state_bytes = (uint32_t)(o->state_bytes ? o->state_bytes : state_length),
        .host_bytes = (uint32_t)(o->host_bytes ? o->host_bytes : host_length),
    };
    bool is_pspin = inv->call.kind == SPIN_PSPIN_HANDLER;
    options.scratchpad_bytes = is_pspin ? (uint32_t)o->scratchpad_bytes : 0;
    if (!is_pspin && o->scratchpad_bytes)
        return cli_error(command, CLI_USAGE, "--scratchpad-size: only PsPIN handlers have them");
    if ((o->state_in && strcmp(o->state_in, "l2") == 0) || (!o->state_in && is_pspin))
        options.state_in_l2 = true;
    else if (o->state_in && strcmp(o->state_in, "l1") != 0)
        return cli_error(command, CLI_USAGE, "--state-in: '%s' is neither l1 nor l2", o->state_in);
    int status = cli_jit(command, o->jit, &options.jit);
    if (status)
        return status;
    struct spin_error err;
    return spin_rig_new(&inv->rig, inv->image, &options, &err) ? cli_report(command, &err) : 0;
}

static int fill_memory(const struct cli_command *command, struct invocation *inv,
                       enum spin_space space, const char *what, const uint8_t *bytes,
                       size_t length) {
    uint32_t room, address;
    uint8_t *memory = spin_rig_memory(inv->rig, space, &room, &address);
    if (length > room)
        return cli_error(command, CLI_USAGE, "%s of %zu bytes does not fit the %u bytes asked for",
                         what, length, room);
    if (length)
        memcpy(memory, bytes, length);
    return 0;
}

static uint8_t *reach(void *user, uint32_t context, enum spin_space space, unsigned copy,
                      uint64_t *bytes) {
    uint32_t room = 0, address;
    uint8_t *at = copy || context ? NULL : spin_rig_memory(user, space, &room, &address);
    *bytes = room;
    return room ? at : NULL;
}

int invoke_dump(const struct cli_command *command, const struct invoke_options *o,
                struct invocation *inv) {
    return memory_dump(command, &o->dump, &(struct memory_view){inv->rig, 1, reach});
}

int invoke_begin(const struct cli_command *command, const struct invoke_options *o,
                 const struct cli_list *operands, struct invocation *inv) {
    *inv = (struct invocation){0};
    uint8_t *state = NULL, *host = NULL;
    size_t state_length = 0, host_length = 0;
    struct spin_error err;
    int status = card_load_image(command, &o->card, operands, &inv->image);
    if (!status && !o->entry)
        status = cli_error(command, CLI_USAGE,
                           "which handler? give --entry NAME ('openspin image %s' lists them)",
                           operands->items[0]);
    if (!status && spin_image_find(inv->image, o->entry, &inv->function, &err))
        status = cli_report(command, &err);
    if (!status)
        status = pick_kind(command, o, inv);
    if (!status)
        status = make_packet(command, o, inv);
    if (!status)
        status = read_bytes(command, "state", o->state, o->state_hex, "state-hex", &state,
                            &state_length);
    if (!status)
        status = read_bytes(command, "host memory", o->host, NULL, "host", &host, &host_length);
    if (!status)
        status = make_rig(command, o, inv, state_length, host_length);
    if (!status)
        status = fill_memory(command, inv, SPIN_STATE, "state", state, state_length);
    if (!status)
        status = fill_memory(command, inv, SPIN_ME_HOST, "host memory", host, host_length);
    if (!status)
        status = memory_fill(command, &o->fill, &(struct memory_view){inv->rig, 1, reach});
    if (!status)
        status = memory_check(command, "--dump", &o->dump, 1);
    if (!status && o->message_bytes && o->message_bytes < inv->call.packet_bytes)
        status =
            cli_error(command, CLI_USAGE, "--message-size: %llu bytes, and its packet alone has %u",
                      (unsigned long long)o->message_bytes, inv->call.packet_bytes);
    if (!status) {
        struct spin_call *c = &inv->call;
        c->entry = inv->function->address;
        c->packet_offset = (uint32_t)o->offset;
        c->message_bytes = (uint32_t)o->message_bytes;
        c->user_hdr_bytes = (uint32_t)o->user_hdr;
        c->source = (uint32_t)o->source;
        c->target = (uint32_t)o->target;
        c->me_offset = (uint32_t)o->me_offset;
        c->match_bits = o->match_bits;
        c->hdr_data = o->hdr_data;
        c->dropped_bytes = (uint32_t)o->dropped;
        c->flow_control = o->flow_control;
        c->home_cluster = (uint32_t)o->home_cluster;
        c->flow = (uint32_t)o->flow;
        status = set_arguments(command, o, inv);
    }
    free(state);
    free(host);
    return status;
}

void invoke_end(struct invocation *inv) {
    spin_rig_free(inv->rig);
    spin_image_free(inv->image);
    free(inv->packet);
}
