/* The handlers of one card under one gdb. They are slices of several HPUs, one after the other, and
 * gdb sees whichever runs as its one thread. Breakpoints hold for all of them. A step is of the
 * handler that stood: others go on meanwhile, and when it ends gdb is stopped where the next one
 * begins. */
#include <stdio.h>
#include <stdlib.h>

#include "hpu/gdb.h"

struct gdb_many {
    struct gdb gdb;
    bool connected, stop_next;
    const struct hpu *stepped; /* by gdb's last command */
    uint16_t port;
    void (*listening)(void *user, uint16_t port, const char *image);
    void *user;
};

struct gdb_many *gdb_many_new(uint16_t port,
                              void (*listening)(void *user, uint16_t port, const char *image),
                              void *user) {
    struct gdb_many *m = calloc(1, sizeof *m);
    if (m)
        *m = (struct gdb_many){.gdb = {.many = true, .target.step = hpu_step},
                               .stop_next = true,
                               .port = port,
                               .listening = listening,
                               .user = user};
    return m;
}

/* False: nobody can connect, which is said where the port would have been. */
static void connect_now(struct gdb_many *m, const struct spin_image *image) {
    struct spin_error err;
    int listener;
    uint16_t port = m->port;
    m->connected = true;
    if (rsp_listen(m->port, &listener, &port, &err)) {
        fprintf(stderr, "%s\n", err.text);
        m->gdb.over = true;
        return;
    }
    if (m->listening)
        m->listening(m->user, port, spin_image_info(image)->path);
    if (rsp_accept(&m->gdb.rsp, listener, &err)) {
        fprintf(stderr, "%s\n", err.text);
        m->gdb.over = true;
    }
}

enum hpu_stop gdb_run_one(struct gdb_many *m, struct hpu *h, const struct spin_image *image,
                          uint64_t until) {
    struct gdb *g = &m->gdb;
    bool first = !m->connected, stands = m->stop_next;
    g->target.hpu = h;
    g->image = image;
    g->start_cycle = 0;
    if (first)
        connect_now(m, image);
    if (g->over && !g->killed)
        return hpu_run(h, until);
    if (m->stop_next) { /* the first is where gdb asks for it itself */
        m->stop_next = false;
        g->stop = HPU_PAUSED;
        g->last = (struct stops_result){.why = STOPS_STEPPED};
        if (!first)
            gdb_say_stop(g);
        gdb_serve(g);
        m->stepped = h;
    }
    struct stops_result hit;
    if (!stands && !h->instret && stops_breaks_at(&g->stops, h->pc, &hit)) {
        g->stop = HPU_PAUSED; /* where a handler begins */
        g->last = hit;
        gdb_say_stop(g);
        gdb_serve(g);
        m->stepped = h;
    }
    struct stops_how how = g->how;
    if (how.step && m->stepped != h)
        g->how = (struct stops_how){0};
    bool was_free = how.step && m->stepped != h;
    g->resumed = false;
    enum hpu_stop stop = gdb_run(g, until);
    if (g->resumed)
        m->stepped = h; /* gdb was served: its last command is about this one */
    else if (was_free)
        g->how = how;
    if ((stop == HPU_DONE || stop == HPU_FAULTED) && g->how.step && m->stepped == h) {
        m->stop_next = true;
        g->how = (struct stops_how){0};
    }
    return stop;
}

void gdb_many_free(struct gdb_many *m) {
    if (!m)
        return;
    if (m->connected && !m->gdb.over) {
        rsp_say(&m->gdb.rsp, "W00");
        rsp_close(&m->gdb.rsp);
    }
    free(m);
}
