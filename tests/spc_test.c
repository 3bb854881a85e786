/* Block traces: what the reader takes and what it says of bad lines; that made traces have the
 * statistics of their profile, and are the same by seed. */
#include "spinlib/spc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/test.h"

TEST(the_published_format) {
    static const char text[] = "0,20941264,8192,W,0.551706\r\n\n 1, 3436288,15872,r,1.5,a,b\n";
    struct spin_spc_trace t;
    char error[200];
    CHECK(spin_spc_parse(text, strlen(text), 0, &t, error, sizeof error));
    CHECK_EQ(t.records, 2);
    CHECK_EQ(t.record[0].lba, 20941264);
    CHECK_EQ(t.record[0].bytes, 8192);
    CHECK(t.record[0].is_write && fabs(t.record[0].seconds - 0.551706) < 1e-9);
    CHECK_EQ(t.record[1].asu, 1);
    CHECK(!t.record[1].is_write && t.record[1].seconds == 1.5);
    spin_spc_free(&t);
    CHECK(spin_spc_parse(text, strlen(text), 1, &t, error, sizeof error));
    CHECK_EQ(t.records, 1);
    spin_spc_free(&t);
}

TEST(bad_lines_are_one_clear_error) {
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"", "line 0: there is no request in the trace"},
        {"0,1,512,R,0\n0,1,512\n", "line 2: there is no opcode (ASU,LBA,size,opcode,timestamp)"},
        {"0,1,512,X,0\n", "line 1: opcode 'X' is neither R nor W"},
        {"0,-1,512,R,0\n", "line 1: LBA '-1' is not a number"},
        {"0,1,2000000000,R,0\n", "line 1: size 2000000000 is above 1073741824"},
        {"0,1,512,R,nan\n", "line 1: timestamp 'nan' is not a number of seconds"},
        {"0,1,512,R,-1\n", "line 1: timestamp '-1' is not a number of seconds"},
        {"0,\x01,512,R,1\n", "line 1: LBA has a byte 0x01"},
        {"99999999999999999999999,1,512,R,1\n",
         "line 1: ASU 99999999999999999999999 is above 4294967295"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct spin_spc_trace t;
        char error[200];
        CHECK(!spin_spc_parse(bad[i].text, strlen(bad[i].text), 0, &t, error, sizeof error));
        CHECK_STR(error, bad[i].says);
    }
}

TEST(a_file_that_is_not_there) {
    struct spin_spc_trace t;
    char error[200];
    CHECK(!spin_spc_load("/nowhere/trace.spc", 0, &t, error, sizeof error));
    CHECK_STR(error, "/nowhere/trace.spc: No such file or directory");
}

static bool near(double is, double should, double within) {
    return fabs(is - should) <= within * should;
}

TEST(made_traces_have_their_statistics) {
    enum { RECORDS = 20000 };
    for (const struct spin_spc_profile *p = spin_spc_profiles; p->name; p++) {
        struct spin_spc_trace a, b;
        double bytes = 0;
        uint64_t hot = 0;
        CHECK(spin_spc_make(p, 5, RECORDS, &a) && spin_spc_make(p, 5, RECORDS, &b));
        for (int i = 0; i < SPIN_SPC_SIZES; i++)
            bytes += p->size[i].bytes * p->size[i].share;
        struct spin_spc_statistics s = spin_spc_statistics(&a);
        CHECK(fabs(s.reads - p->reads) < 0.01 && near(s.mean_bytes, bytes, 0.03));
        CHECK(near(s.rate, p->rate, 0.03) && fabs(s.sequential - p->sequential) < 0.01);
        CHECK_EQ(s.asus, p->asus);
        for (uint64_t i = 0; i < RECORDS; i++)
            hot += a.record[i].lba < p->asu_blocks / 10;
        CHECK(fabs((double)hot / RECORDS - (p->hot + (1 - p->hot) / 10)) < 0.04);
        for (uint64_t i = 0; i < RECORDS; i++)
            CHECK(a.record[i].lba == b.record[i].lba && a.record[i].bytes == b.record[i].bytes &&
                  a.record[i].seconds == b.record[i].seconds);
        spin_spc_free(&b);
        CHECK(spin_spc_make(p, 6, RECORDS, &b));
        CHECK(a.record[0].lba != b.record[0].lba);
        spin_spc_free(&a);
        spin_spc_free(&b);
    }
}

TEST_MAIN
