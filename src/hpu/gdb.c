/* A handler under gdb: spin_rig_debug() and what the packets of gdb's remote serial protocol mean.
 *
 * Design notes. One handler is one thread, number 1. gdb sees the memory that the handler was
 * given, with the handler's rights, and the code, which nobody writes: breakpoints are kept in a
 * table (stops.c). A handler that faults is shown as a program that got a signal, stopped at the
 * instruction; going on from there ends it, as the card would have. Its return is an exit. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "hpu/gdb.h"
#include "hpu/rig.h"

/* gdb's numbers for signals, which are those of no system. */
enum { SIGNAL_INT = 2, SIGNAL_TRAP = 5 };
static const uint8_t signal_of[] = {
    [HPU_FAULT_SEGV] = 11,       /* SIGSEGV */
    [HPU_FAULT_ILLEGAL] = 4,     /* SIGILL */
    [HPU_FAULT_CHECK] = 5,       /* SIGTRAP */
    [HPU_FAULT_MISALIGNED] = 10, /* SIGBUS */
    [HPU_FAULT_BUDGET] = 24,     /* SIGXCPU */
    [HPU_FAULT_COMMAND] = 12,    /* SIGSYS: a bad request to the card */
    [HPU_FAULT_KILLED] = 9,      /* SIGKILL */
    [HPU_FAULT_HOST] = 11,       /* SIGSEGV */
    [HPU_FAULT_CALL] = 12,       /* SIGSYS */
};

/* ---- Running */

void gdb_say_stop(struct gdb *g) {
    static const char *const watch[] = {[STOPS_WATCH_WRITE] = "watch",
                                        [STOPS_WATCH_READ] = "rwatch",
                                        [STOPS_WATCH_ACCESS] = "awatch"};
    const struct hpu *h = g->target.hpu;
    struct rsp *r = &g->rsp;
    unsigned signal = g->last.why == STOPS_ASKED ? SIGNAL_INT : SIGNAL_TRAP;
    if (g->stop == HPU_FAULTED)
        signal = signal_of[h->fault];
    rsp_begin(r);
    if (g->stop == HPU_DONE) {
        rsp_text(r, "W%02x", h->x[10] & 0xff);
        g->over = true;
    } else {
        rsp_text(r, "T%02xthread:1;", signal);
        if (g->last.why == STOPS_AT_WATCH)
            rsp_text(r, "%s:%x;", watch[g->last.kind], g->last.address);
        else if (g->last.why == STOPS_AT_BREAK && g->last.kind == STOPS_SOFTWARE_BREAK)
            rsp_text(r, "%s", g->knows_swbreak ? "swbreak:;" : "");
        else if (g->last.why == STOPS_AT_BREAK)
            rsp_text(r, "%s", g->knows_hwbreak ? "hwbreak:;" : "");
    }
    rsp_send(r);
}

/* While the handler runs: true to stop it. A packet that comes now has to wait. */
static bool asked(void *context) {
    struct gdb *g = context;
    if (g->pending)
        return false;
    switch (rsp_next(&g->rsp, false)) {
    case RSP_INTERRUPT:
    case RSP_GONE:
        return true;
    case RSP_PACKET:
        g->pending = true;
        break;
    case RSP_NOTHING:
        break;
    }
    return false;
}

static bool never(void *context) {
    (void)context;
    return false;
}

static void resume(struct gdb *g, struct stops_how how) {
    if (g->stop == HPU_FAULTED && !g->many) { /* gdb has seen it; now it takes effect */
        rsp_begin(&g->rsp);
        rsp_text(&g->rsp, "X%02x", signal_of[g->target.hpu->fault]);
        rsp_send(&g->rsp);
        g->over = true;
        return;
    }
    g->how = how;
    g->resumed = true;
}

enum hpu_stop gdb_run(struct gdb *g, uint64_t until) {
    struct hpu *h = g->target.hpu;
    while (!g->over) {
        g->last = stops_run(&g->stops, &g->target, g->how, until, asked, g);
        bool ended = g->last.why == STOPS_ENDED;
        g->stop = ended ? g->last.stop : HPU_PAUSED;
        if (ended && (g->stop == HPU_WAITING || g->stop == HPU_PAUSED))
            return g->stop;
        if (!g->rsp.gone && !(g->stop == HPU_DONE && g->many))
            gdb_say_stop(g);
        if (g->stop == HPU_DONE)
            return HPU_DONE;
        gdb_serve(g);
        if (g->stop == HPU_FAULTED)
            return HPU_FAULTED;
    }
    if (g->killed) {
        h->fault = HPU_FAULT_KILLED;
        g->killed = false;
        return HPU_FAULTED;
    }
    /* gdb has left: it goes on without. */
    g->last = h->pc == MAP_RETURN ? (struct stops_result){.stop = HPU_DONE}
                                  : stops_run(&(struct stops){0}, &g->target, (struct stops_how){0},
                                              until, never, NULL);
    return g->last.stop;
}

/* c [ADDRESS], s [ADDRESS], C SIGNAL[;ADDRESS], S SIGNAL[;ADDRESS]. There are no signals to give.
 */
static void old_resume(struct gdb *g, const char *at, char what) {
    uint64_t signal, address;
    bool good = true, has_address = *at;
    if (what == 'C' || what == 'S') {
        good = rsp_take_number(&at, 0xff, &signal);
        has_address = good && rsp_take_char(&at, ';');
    }
    if (good && has_address)
        good = rsp_take_number(&at, UINT32_MAX, &address);
    if (!good || *at) {
        rsp_say(&g->rsp, GDB_BAD_PACKET);
        return;
    }
    if (has_address)
        gdb_set_pc(g->target.hpu, (uint32_t)address);
    resume(g, (struct stops_how){.step = what == 's' || what == 'S'});
}

/* ":THREAD" behind an action; without it, the action is for all of them. */
static bool take_thread(const char **at, bool *ours) {
    uint64_t thread = 0;
    *ours = true;
    if (!rsp_take_char(at, ':') || rsp_take_word(at, "-1"))
        return true;
    if (!rsp_take_number(at, UINT32_MAX, &thread))
        return false;
    *ours = thread <= 1;
    return true;
}

/* One action of vCont: c, s, C SIGNAL, S SIGNAL, r FROM,TO. */
static bool take_action(const char **at, struct stops_how *how, bool *ours) {
    uint64_t signal, from, to;
    char what = **at;
    *how = (struct stops_how){.step = what == 's' || what == 'S' || what == 'r'};
    if (!what || !strchr("csCSr", what))
        return false;
    ++*at;
    if ((what == 'C' || what == 'S') && !rsp_take_number(at, 0xff, &signal))
        return false;
    if (what == 'r') {
        if (!rsp_take_number(at, UINT32_MAX, &from) || !rsp_take_char(at, ',') ||
            !rsp_take_number(at, UINT32_MAX, &to))
            return false;
        how->from = (uint32_t)from;
        how->to = (uint32_t)to;
    }
    return take_thread(at, ours);
}

/* The first action that is for our thread counts; the rest must still be well formed. */
static void vcont(struct gdb *g, const char *at) {
    struct stops_how how = {0}, next;
    bool found = false, ours, good = *at != 0;
    while (good && *at) {
        good = rsp_take_char(&at, ';') && take_action(&at, &next, &ours);
        if (good && ours && !found) {
            how = next;
            found = true;
        }
    }
    if (good && found)
        resume(g, how);
    else
        rsp_say(&g->rsp, GDB_BAD_PACKET);
}

/* Z KIND,ADDRESS,LENGTH sets, z removes. */
static void change_point(struct gdb *g, const char *at, bool set) {
    uint64_t kind, address, length;
    if (!rsp_take_number(&at, 0xff, &kind) || !rsp_take_char(&at, ',') ||
        !gdb_take_range(&at, &address, &length, UINT32_MAX) || *at) {
        rsp_say(&g->rsp, GDB_BAD_PACKET);
        return;
    }
    if (kind >= STOPS_KINDS) {
        rsp_say(&g->rsp, ""); /* unknown, in the protocol's way */
        return;
    }
    bool room = true;
    if (set)
        room = stops_add(&g->stops, (enum stops_kind)kind, (uint32_t)address, (uint32_t)length);
    else
        stops_remove(&g->stops, (enum stops_kind)kind, (uint32_t)address, (uint32_t)length);
    rsp_say(&g->rsp, room ? "OK" : GDB_NO_ROOM);
}

/* ---- Questions */

/* `monitor WORD` of gdb: the command and the answer go in hexadecimal. */
static void monitor(struct gdb *g, const char *at) {
    const struct hpu *h = g->target.hpu;
    char word[64] = "", text[200];
    size_t count = strlen(at) / 2;
    if (strlen(at) % 2 || count >= sizeof word || !rsp_take_bytes(&at, (uint8_t *)word, count)) {
        rsp_say(&g->rsp, GDB_BAD_PACKET);
        return;
    }
    static const char help[] =
        "monitor cycles   cycles and instructions since the handler's start\n"
        "monitor help     this\n";
    if (strcmp(word, "cycles") == 0)
        snprintf(text, sizeof text, "cycles %llu, instructions %llu\n",
                 (unsigned long long)(h->cycles - g->start_cycle), (unsigned long long)h->instret);
    else
        snprintf(text, sizeof text, "%s%s", strcmp(word, "help") == 0 ? "" : "no such command\n",
                 help);
    rsp_begin(&g->rsp);
    rsp_hex(&g->rsp, text, strlen(text));
    rsp_send(&g->rsp);
}

static void supported(struct gdb *g, const char *at) {
    g->knows_swbreak = strstr(at, "swbreak+") != NULL;
    g->knows_hwbreak = strstr(at, "hwbreak+") != NULL;
    rsp_begin(&g->rsp);
    rsp_text(&g->rsp,
             "PacketSize=%x;qXfer:features:read+;swbreak+;hwbreak+;vContSupported+;"
             "QStartNoAckMode+",
             RSP_BYTES);
    rsp_send(&g->rsp);
}

static void name_thread(struct gdb *g) {
    char name[32];
    int length = snprintf(name, sizeof name, "HPU %u", g->target.hpu->id);
    rsp_begin(&g->rsp);
    rsp_hex(&g->rsp, name, (size_t)length);
    rsp_send(&g->rsp);
}

static void question(struct gdb *g, const char *at) {
    if (rsp_take_word(&at, "qSupported"))
        supported(g, at);
    else if (rsp_take_word(&at, "qXfer:features:read:"))
        gdb_read_features(g, at);
    else if (rsp_take_word(&at, "qRcmd,"))
        monitor(g, at);
    else if (rsp_take_word(&at, "qThreadExtraInfo,"))
        name_thread(g);
    else if (strcmp(at, "qC") == 0)
        rsp_say(&g->rsp, "QC1");
    else if (strcmp(at, "qfThreadInfo") == 0)
        rsp_say(&g->rsp, "m1");
    else if (strcmp(at, "qsThreadInfo") == 0)
        rsp_say(&g->rsp, "l");
    else if (rsp_take_word(&at, "qAttached")) /* so that leaving gdb lets go of the handler */
        rsp_say(&g->rsp, "1");
    else
        rsp_say(&g->rsp, "");
}

/* ---- The session */

static void end(struct gdb *g, bool kill, bool answer) {
    if (answer)
        rsp_say(&g->rsp, "OK");
    g->killed = kill;
    g->over = true;
}

static void long_word(struct gdb *g, const char *at) {
    if (strcmp(at, "vCont?") == 0)
        rsp_say(&g->rsp, "vCont;c;C;s;S;r");
    else if (rsp_take_word(&at, "vCont"))
        vcont(g, at);
    else if (rsp_take_word(&at, "vKill"))
        end(g, true, true);
    else
        rsp_say(&g->rsp, "");
}

static void no_ack_mode(struct gdb *g, const char *at) {
    bool asked_for = strcmp(at, "QStartNoAckMode") == 0;
    rsp_say(&g->rsp, asked_for ? "OK" : "");
    g->rsp.no_ack |= asked_for; /* from the next packet on */
}

static void obey(struct gdb *g) {
    const char *packet = g->rsp.packet, *rest = packet + (packet[0] != 0);
    switch (packet[0]) {
    case '?':
        gdb_say_stop(g);
        break;
    case 'g':
        gdb_read_registers(g);
        break;
    case 'G':
        gdb_write_registers(g, rest);
        break;
    case 'p':
    case 'P':
        gdb_one_register(g, rest, packet[0] == 'P');
        break;
    case 'm':
        gdb_read_memory(g, rest);
        break;
    case 'M':
    case 'X':
        gdb_write_memory(g, rest, packet[0] == 'X');
        break;
    case 'c':
    case 's':
    case 'C':
    case 'S':
        old_resume(g, rest, packet[0]);
        break;
    case 'Z':
    case 'z':
        change_point(g, rest, packet[0] == 'Z');
        break;
    case 'H': /* which thread: there is one */
    case 'T': /* whether it lives */
        rsp_say(&g->rsp, "OK");
        break;
    case 'q':
        question(g, packet);
        break;
    case 'Q':
        no_ack_mode(g, packet);
        break;
    case 'v':
        long_word(g, packet);
        break;
    case 'D':
        end(g, false, true);
        break;
    case 'k':
        end(g, true, false);
        break;
    default:
        rsp_say(&g->rsp, "");
    }
}

void gdb_serve(struct gdb *g) {
    g->resumed = false;
    while (!g->over && !g->resumed) {
        enum rsp_event event = g->pending ? RSP_PACKET : rsp_next(&g->rsp, true);
        g->pending = false;
        if (event == RSP_GONE)
            g->over = true;
        if (event == RSP_PACKET)
            obey(g); /* Ctrl-C finds the handler stopped already */
    }
}

static enum hpu_stop step_rig(struct hpu *h) {
    return rig_step((struct spin_rig *)h);
}

int spin_rig_debug(struct spin_rig *rig, const struct spin_call *call, uint16_t port,
                   void (*listening)(void *context, uint16_t port), void *context,
                   struct spin_outcome *outcome, struct spin_error *err) {
    struct gdb g = {.target = {&rig->hpu, step_rig, rig->trace != NULL},
                    .image = rig->image,
                    .start_cycle = rig->start_cycle,
                    .stop = HPU_PAUSED,
                    .last.why = STOPS_STEPPED};
    int listener, code = rig_begin(rig, call, err);
    if (!code)
        code = rsp_listen(port, &listener, &port, err);
    if (code)
        return code;
    if (listening)
        listening(context, port);
    code = rsp_accept(&g.rsp, listener, err);
    if (code)
        return code;
    gdb_serve(&g);
    enum hpu_stop stop = gdb_run(&g, UINT64_MAX);
    rsp_close(&g.rsp);
    rig_end(rig, stop, outcome);
    return SPIN_OK;
}
