#include "invoke.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "profile.h"

struct options {
    struct invoke_options invoke;
    bool trace, profile;
    const char *clock, *json;
    uint64_t gdb, repeat, cycle_ps;
};

static const struct cli_option options[] = {
    INVOKE_OPTIONS(struct options, invoke),
    {"repeat", 0, CLI_NUMBER, "N", "run N times, report the last (a warm instruction cache)",
     offsetof(struct options, repeat), 1, 1000000000},
    {"clock", 0, CLI_STRING, "FREQUENCY", "2GHz, or 1500 in MHz: the time that the cycles take",
     offsetof(struct options, clock), 0, 0},
    {"json", 'j', CLI_RESULT, "[=FILE]", "print JSON, or write it into a file",
     offsetof(struct options, json), 0, 0},
    {"trace", 0, CLI_FLAG, NULL, "print every instruction with its source line",
     offsetof(struct options, trace), 0, 0},
    {"profile", 0, CLI_FLAG, NULL, "print source and disassembly with cycles, hottest first",
     offsetof(struct options, profile), 0, 0},
    {"gdb", 0, CLI_NUMBER, "PORT", "wait for gdb on this port of 127.0.0.1 (0: any)",
     offsetof(struct options, gdb), 0, 65535},
    {0}};

/* The memories whose changes are reported. */
static const struct {
    enum spin_space space;
    const char *name;
} spaces[] = {{SPIN_STATE, "state"},
              {SPIN_PACKET, "packet"},
              {SPIN_DATA, "data"},
              {SPIN_ME_HOST, "ME host memory"},
              {SPIN_HANDLER_HOST, "handler host memory"},
              {SPIN_SCRATCHPAD, "scratchpad 0"},
              {SPIN_SCRATCHPAD + 1, "scratchpad 1"},
              {SPIN_SCRATCHPAD + 2, "scratchpad 2"},
              {SPIN_SCRATCHPAD + 3, "scratchpad 3"}};
#define SPACES       (sizeof spaces / sizeof spaces[0])
#define MOST_CHANGES 8  /* runs of bytes shown a memory */
#define SHOWN_BYTES  16 /* of a run */

struct snapshot {
    uint8_t *before[SPACES];
};

static bool snapshot_take(struct snapshot *s, struct invocation *inv) {
    for (size_t i = 0; i < SPACES; i++) {
        uint32_t bytes, address;
        const uint8_t *now = spin_rig_memory(inv->rig, spaces[i].space, &bytes, &address);
        if (spaces[i].space == SPIN_PACKET) { /* it is put there by the call */
            now = inv->packet;
            bytes = inv->call.packet_bytes;
        }
        s->before[i] = malloc(bytes ? bytes : 1);
        if (!s->before[i])
            return false;
        if (bytes)
            memcpy(s->before[i], now, bytes);
    }
    return true;
}

static void snapshot_free(struct snapshot *s) {
    for (size_t i = 0; i < SPACES; i++)
        free(s->before[i]);
}

/* The next run of changed bytes from `from` on; gaps of up to 3 equal bytes do not end it. */
static bool next_change(const uint8_t *was, const uint8_t *now, uint32_t bytes, uint32_t from,
                        uint32_t *start, uint32_t *end) {
    while (from < bytes && was[from] == now[from])
        from++;
    if (from == bytes)
        return false;
    *start = from;
    *end = from + 1;
    for (uint32_t i = from + 1; i < bytes && i - *end < 4; i++)
        if (was[i] != now[i])
            *end = i + 1;
    return true;
}

static void print_bytes(const uint8_t *bytes, uint32_t count) {
    for (uint32_t i = 0; i < count && i < SHOWN_BYTES; i++)
        printf("%s%02x", i && i % 4 == 0 ? " " : "", bytes[i]);
    if (count > SHOWN_BYTES)
        printf("...");
}

static void print_changes(const struct snapshot *s, struct invocation *inv) {
    bool any = false;
    for (size_t i = 0; i < SPACES; i++) {
        uint32_t bytes, address, start, end, from = 0, runs = 0;
        const uint8_t *now = spin_rig_memory(inv->rig, spaces[i].space, &bytes, &address);
        while (next_change(s->before[i], now, bytes, from, &start, &end)) {
            if (runs++ < MOST_CHANGES) {
                printf("%-13s %s+0x%x, %u byte%s: ", any ? "" : "changed", spaces[i].name, start,
                       end - start, end - start == 1 ? "" : "s");
                print_bytes(s->before[i] + start, end - start);
                printf(" -> ");
                print_bytes(now + start, end - start);
                printf("\n");
            }
            any = true;
            from = end;
        }
        if (runs > MOST_CHANGES)
            printf("%-13s %s: %u more changes\n", "", spaces[i].name, runs - MOST_CHANGES);
    }
    if (!any)
        printf("%-13s nothing\n", "changed");
}

static double ipc(const struct spin_outcome *r) {
    return r->cycles ? (double)r->instructions / (double)r->cycles : 0;
}

static void print_ending(const struct invocation *inv, const struct spin_outcome *r) {
    const char *name = spin_return_code_name(r->value);
    char text[400];
    if (r->ending == SPIN_RETURNED) {
        if (inv->call.kind == SPIN_PSPIN_HANDLER) /* it is void */
            printf("%-13s returned\n", "result");
        else if (name && inv->call.kind != SPIN_OTHER_FUNCTION)
            printf("%-13s %s (%d)\n", "result", name, r->value);
        else
            printf("%-13s %d (0x%x)\n", "result", r->value, (uint32_t)r->value);
        return;
    }
    spin_ending_text(inv->image, r->ending, r->pc, r->bad_address, &r->refusal, text, sizeof text);
    printf("%-13s ended: %s\n", "result", text);
}

static void print_commands(const struct spin_outcome *r) {
    if (!r->commands)
        printf("%-13s none\n", "commands");
    for (uint32_t i = 0; i < r->commands; i++) {
        const struct spin_command *c = &r->command[i];
        unsigned words;
        const char *label;
        printf("%-13s cycle %llu: %s", i ? "" : "commands", (unsigned long long)c->cycle,
               spin_command_name(c->number, &words, &label));
        for (unsigned w = 0; w < words; w++) {
            int length = (int)strcspn(label, " ");
            printf(" %.*s=0x%x", length, label, c->word[w]);
            label += length + (label[length] == ' ');
        }
        printf("\n");
    }
    if (r->commands_lost)
        printf("%-13s and %u more\n", "", r->commands_lost);
}

static double time_ns(const struct spin_outcome *r, uint64_t cycle_ps) {
    return (double)r->cycles * (double)cycle_ps / 1000;
}

static void print_text(const struct invocation *inv, const struct spin_outcome *r,
                       uint64_t cycle_ps) {
    printf("%-13s %s (%s), %u bytes\n", "handler", inv->function->name,
           card_kind_name(inv->call.kind), inv->call.packet_bytes);
    print_ending(inv, r);
    printf("%-13s %llu\n", "instructions", (unsigned long long)r->instructions);
    printf("%-13s %llu", "cycles", (unsigned long long)r->cycles);
    if (r->icache_misses)
        printf(", with %llu instruction cache miss%s", (unsigned long long)r->icache_misses,
               r->icache_misses == 1 ? "" : "es");
    if (cycle_ps)
        printf("\n%-13s %.3f ns at %.4g GHz", "time", time_ns(r, cycle_ps),
               1000.0 / (double)cycle_ps);
    printf("\n%-13s %.2f\n", "IPC", ipc(r));
    bool any = false;
    for (int i = 0; i < SPIN_REGIONS; i++)
        if (r->loads[i] || r->stores[i]) {
            printf("%-13s %-18s %8llu loads %8llu stores\n", any ? "" : "accesses",
                   spin_region_name((enum spin_region)i), (unsigned long long)r->loads[i],
                   (unsigned long long)r->stores[i]);
            any = true;
        }
    print_commands(r);
}

static void json_changes(struct json *j, const struct snapshot *s, struct invocation *inv) {
    json_array(j, "changed");
    for (size_t i = 0; i < SPACES; i++) {
        uint32_t bytes, address, start, end, from = 0;
        const uint8_t *now = spin_rig_memory(inv->rig, spaces[i].space, &bytes, &address);
        for (; next_change(s->before[i], now, bytes, from, &start, &end); from = end) {
            json_object(j, NULL);
            json_string(j, "memory", spaces[i].name);
            json_u64(j, "offset", start);
            json_hex(j, "was", s->before[i] + start, end - start);
            json_hex(j, "now", now + start, end - start);
            json_end_object(j);
        }
    }
    json_end_array(j);
}

static void json_refusal(struct json *j, const struct spin_image *image, uint32_t pc,
                         const struct spin_refusal *refusal) {
    const char *file, *call = NULL;
    int line;
    if (spin_image_caller(image, pc, &file, &line, &call)) {
        json_string(j, "file", file);
        json_u64(j, "line", (uint64_t)line);
    }
    if (refusal->call) {
        json_string(j, "call", call ? call : refusal->call);
        json_string(j, "why", refusal->why);
    }
}

struct report {
    struct invocation *inv;
    const struct spin_outcome *r;
    const struct snapshot *s;
    uint64_t cycle_ps;
};

static void print_json(FILE *out, const void *what) {
    const struct report *report = what;
    struct invocation *inv = report->inv;
    const struct spin_outcome *r = report->r;
    struct json j = {.out = out};
    const char *name = spin_return_code_name(r->value);
    json_object(&j, NULL);
    json_string(&j, "handler", inv->function->name);
    json_string(&j, "kind", card_kind_name(inv->call.kind));
    json_u64(&j, "packet_bytes", inv->call.packet_bytes);
    json_string(&j, "ending", spin_ending_name(r->ending));
    if (r->ending == SPIN_RETURNED && inv->call.kind == SPIN_PSPIN_HANDLER) {
        /* no value: it is void */
    } else if (r->ending == SPIN_RETURNED) {
        json_i64(&j, "value", r->value);
        if (name)
            json_string(&j, "code", name);
    } else {
        json_u64(&j, "pc", r->pc);
        json_u64(&j, "address", r->bad_address);
        json_refusal(&j, inv->image, r->pc, &r->refusal);
    }
    json_u64(&j, "instructions", r->instructions);
    json_u64(&j, "cycles", r->cycles);
    if (report->cycle_ps)
        json_real(&j, "time_ns", time_ns(r, report->cycle_ps), 3);
    json_real(&j, "ipc", ipc(r), 4);
    json_u64(&j, "icache_misses", r->icache_misses);
    json_array(&j, "accesses");
    for (int i = 0; i < SPIN_REGIONS; i++)
        if (r->loads[i] || r->stores[i]) {
            json_object(&j, NULL);
            json_string(&j, "region", spin_region_name((enum spin_region)i));
            json_u64(&j, "loads", r->loads[i]);
            json_u64(&j, "stores", r->stores[i]);
            json_end_object(&j);
        }
    json_end_array(&j);
    json_array(&j, "commands");
    for (uint32_t i = 0; i < r->commands; i++) {
        unsigned words;
        const char *label;
        json_object(&j, NULL);
        json_string(&j, "command", spin_command_name(r->command[i].number, &words, &label));
        json_u64(&j, "cycle", r->command[i].cycle);
        for (unsigned w = 0; w < words; w++) {
            char key[32];
            int length = (int)strcspn(label, " ");
            snprintf(key, sizeof key, "%.*s", length, label);
            json_u64(&j, key, r->command[i].word[w]);
            label += length + (label[length] == ' ');
        }
        json_end_object(&j);
    }
    json_end_array(&j);
    json_changes(&j, report->s, inv);
    json_end_object(&j);
}

static void say_port(void *context, uint16_t port) {
    const struct invocation *inv = context;
    const char *path = spin_image_info(inv->image)->path;
    fprintf(stderr, "waiting for gdb: gdb-multiarch %s -ex 'target remote :%u'\n", path, port);
}

static int execute(const struct cli_command *command, const struct options *o, bool with_gdb,
                   struct invocation *inv, struct spin_outcome *r) {
    struct spin_error err;
    int code = SPIN_OK;
    for (uint64_t i = 1; i < o->repeat && !code; i++)
        code = spin_rig_call(inv->rig, &inv->call, r, &err);
    struct profile *profile = NULL;
    if (!code && (o->trace || o->profile)) {
        profile = profile_new(inv->image);
        if (!profile)
            return cli_error(command, CLI_FAILED, "out of memory");
        spin_rig_trace(inv->rig, o->trace ? profile_trace : profile_count, profile);
    }
    if (!code && with_gdb)
        code = spin_rig_debug(inv->rig, &inv->call, (uint16_t)o->gdb, say_port, inv, r, &err);
    else if (!code)
        code = spin_rig_call(inv->rig, &inv->call, r, &err);
    if (!code && o->profile)
        profile_print(profile, r);
    profile_free(profile);
    return code ? cli_report(command, &err) : 0;
}

#define NO_GDB UINT64_MAX

static int run(const struct cli_command *command, int argc, char **argv) {
    struct options o = {.gdb = NO_GDB};
    struct cli_list operands;
    struct invocation inv = {0};
    struct snapshot before = {{0}};
    struct spin_outcome r = {0};
    int status = cli_parse(command, argc, argv, &o, &operands);
    bool with_gdb = o.gdb != NO_GDB;
    if (!status && cli_is_printed(o.json, NULL) && (o.trace || o.profile))
        status =
            cli_error(command, CLI_USAGE,
                      "--json goes without --trace and --profile, or into a file: --json=FILE");
    if (!status && with_gdb && (o.trace || o.profile))
        status = cli_error(command, CLI_USAGE, "--gdb goes without --trace and --profile");
    if (!status && o.clock)
        status = cli_clock(command, "--clock", o.clock, &o.cycle_ps);
    if (!status)
        status = invoke_begin(command, &o.invoke, &operands, &inv);
    if (!status && !snapshot_take(&before, &inv))
        status = cli_error(command, CLI_FAILED, "out of memory");
    if (!status)
        status = execute(command, &o, with_gdb, &inv, &r);
    if (!status)
        status = invoke_dump(command, &o.invoke, &inv);
    if (!status) {
        const struct report report = {&inv, &r, &before, o.cycle_ps};
        status = o.json ? cli_result(command, o.json, print_json, &report) : 0;
        if (!status && !cli_is_printed(o.json, NULL)) {
            print_text(&inv, &r, o.cycle_ps);
            print_changes(&before, &inv);
        }
        if (!status && r.ending != SPIN_RETURNED)
            status = CLI_FAILED;
    }
    snapshot_free(&before);
    invoke_end(&inv);
    cli_free(command, &o, &operands);
    return status;
}

const struct cli_command cli_exec = {
    .name = "exec",
    .args = "IMAGE --entry NAME [--packet FILE | --hex DIGITS] [options]",
    .summary = "run one handler on a packet",
    .about =
        "Runs one handler on one packet and prints what it returned, instructions, cycles, memory\n"
        "accesses, the commands it gave to the card, and what it changed. DMA goes to a host\n"
        "memory of the rig's and takes no time; messages are shown, not sent. The exit status is\n"
        "1 when the handler was ended by a fault.",
    .options = options,
    .run = run,
};
