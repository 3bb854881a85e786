/* spinlib/spc.h: block traces in the format of the Storage Performance Council, and traces that are
 * made like the published ones. A line is "ASU,LBA,size,opcode,timestamp": the number of a storage
 * unit, the first block of 512 B, bytes, R or W (or r, w), seconds; further fields are skipped. */
#ifndef SPINLIB_SPC_H
#define SPINLIB_SPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SPIN_SPC_BLOCK 512u

struct spin_spc_record {
    uint64_t lba;
    double seconds;
    uint32_t asu, bytes;
    bool is_write;
};
struct spin_spc_trace {
    struct spin_spc_record *record;
    uint64_t records;
};

/* Each returns whether it did; otherwise `error` is one line that says what is wrong and where, and
 * the trace is empty. At most `most` records (0: all) are read. */
bool spin_spc_parse(const char *text, size_t length, uint64_t most, struct spin_spc_trace *trace,
                    char *error, size_t room);
bool spin_spc_load(const char *path, uint64_t most, struct spin_spc_trace *trace, char *error,
                   size_t room);
void spin_spc_print(const struct spin_spc_trace *trace, FILE *out);
void spin_spc_free(struct spin_spc_trace *trace);

/* How a trace is made: like those of an OLTP system ("financial1", "financial2") and of a search
 * engine ("websearch1" to "websearch3"). */
#define SPIN_SPC_SIZES 6
struct spin_spc_profile {
    const char *name;
    double reads;      /* share of the requests */
    double rate;       /* requests per second; gaps are exponential */
    double hot;        /* share of the requests that go to a tenth of each unit's blocks */
    double sequential; /* share that begins where the unit's last request ended */
    uint32_t asus;
    uint64_t asu_blocks;
    struct {
        uint32_t bytes;
        double share;
    } size[SPIN_SPC_SIZES];
};
extern const struct spin_spc_profile spin_spc_profiles[]; /* ended by a row without a name */
/* The same seed makes the same trace. */
bool spin_spc_make(const struct spin_spc_profile *profile, uint64_t seed, uint64_t records,
                   struct spin_spc_trace *trace);

struct spin_spc_statistics {
    double reads, mean_bytes, rate, sequential; /* as above */
    uint32_t asus;                              /* the highest number, plus one */
};
struct spin_spc_statistics spin_spc_statistics(const struct spin_spc_trace *trace);

#ifdef __cplusplus
}
#endif

#endif
