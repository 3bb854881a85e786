/* A session with gdb, shared by its two halves: control in gdb.c, data in gdbdata.c. */
#ifndef SPIN_HPU_GDB_H
#define SPIN_HPU_GDB_H

#include "hpu/image.h"
#include "hpu/rsp.h"
#include "hpu/stops.h"

#define GDB_BAD_PACKET "E01" /* errno values, though gdb only prints them */
#define GDB_BAD_MEMORY "E0e"
#define GDB_NO_ROOM    "E1c"

struct gdb {
    struct stops_target target;
    const struct spin_image *image;
    uint64_t start_cycle; /* of the handler */
    struct rsp rsp;
    struct stops stops;
    struct stops_result last; /* why the handler stands where it stands */
    enum hpu_stop stop;       /* HPU_PAUSED until it ended */
    bool pending;             /* a packet came while it ran */
    bool over, killed;
    struct stops_how how; /* as gdb wants it to go on, */
    bool resumed;         /* once it has said so */
    bool many;            /* handlers come one after the other: gdb_many.c */
    bool knows_swbreak, knows_hwbreak;
};

/* Answers gdb until it lets the handler go on, kills it or leaves. */
void gdb_serve(struct gdb *g);
/* Lets it go on to its end, or to where it waits or reaches `until`; in between it stops, and gdb
 * is served, as often as gdb wants. */
enum hpu_stop gdb_run(struct gdb *g, uint64_t until);
/* Tells gdb that the handler stands. */
void gdb_say_stop(struct gdb *g);

/* gdb_many.c: all handlers of a card under one gdb, as they come. Whoever of them runs is gdb's one
 * thread. gdb connects when the first one begins. */
struct gdb_many;
struct gdb_many *gdb_many_new(uint16_t port,
                              void (*listening)(void *user, uint16_t port, const char *image),
                              void *user);
/* In place of hpu_run. */
enum hpu_stop gdb_run_one(struct gdb_many *m, struct hpu *h, const struct spin_image *image,
                          uint64_t until);
/* The last one has ended. */
void gdb_many_free(struct gdb_many *m);

/* "ADDRESS,LENGTH" that does not wrap around. */
bool gdb_take_range(const char **at, uint64_t *address, uint64_t *length, uint64_t most);
void gdb_set_pc(struct hpu *h, uint32_t pc);

/* Each answers one packet; `at` is what follows its letter or word. */
void gdb_read_registers(struct gdb *g);
void gdb_write_registers(struct gdb *g, const char *at);
void gdb_one_register(struct gdb *g, const char *at, bool write);
void gdb_read_memory(struct gdb *g, const char *at);
void gdb_write_memory(struct gdb *g, const char *at, bool binary);
void gdb_read_features(struct gdb *g, const char *at);

#endif
