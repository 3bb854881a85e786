/* A session with gdb, shared by its two halves: control in gdb.c, data in gdbdata.c. */
#ifndef SPIN_HPU_GDB_H
#define SPIN_HPU_GDB_H

#include "hpu/rig.h"
#include "hpu/rsp.h"
#include "hpu/stops.h"

#define GDB_BAD_PACKET "E01" /* errno values, though gdb only prints them */
#define GDB_BAD_MEMORY "E0e"
#define GDB_NO_ROOM    "E1c"

struct gdb {
    struct spin_rig *rig;
    struct rsp rsp;
    struct stops stops;
    struct stops_result last; /* why the handler stands where it stands */
    enum hpu_stop stop;       /* HPU_PAUSED until it ended */
    bool pending;             /* a packet came while it ran */
    bool over, killed;
    bool knows_swbreak, knows_hwbreak;
};

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
