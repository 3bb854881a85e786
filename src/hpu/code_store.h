/* Programs made ready once in a process: what is interpreted and what was generated from it, shared
 * by all cards, rigs and worlds that run the same bytes in the same way.
 *
 * Results do not depend on who shares: slots are read-only but for guesses (code.h), and generated
 * code does what the interpreter does. What was generated outlives the last user for a while, so a
 * program that makes a card for each point of a sweep compiles its handlers once. */
#ifndef SPIN_HPU_CODE_STORE_H
#define SPIN_HPU_CODE_STORE_H

#include "hpu/code.h"
#include "openspin.h"

struct hpu_code_key {
    const uint8_t *program;
    uint32_t base, bytes;
    enum hpu_mode mode;
    const struct hpu_timing *timing;
    bool with_float;
    enum spin_jit jit;
    bool is_alone;    /* code.h */
    uint32_t variant; /* 0; others for who compares ways to compile it */
};

/* Any thread may call these. What was taken goes back by hpu_code_release, NULL too. */
int hpu_code_share(struct hpu_code **code, const struct hpu_code_key *key, struct spin_error *err);
void hpu_code_release(struct hpu_code *code);

#endif
