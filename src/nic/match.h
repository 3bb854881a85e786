/* The match-action table: rules on packet fields choose an execution context, the host, or a drop.
 *
 *     udp.dport=4791 & ipv4.src=10.0.0.0/8 -> ctx0    # first rule that holds decides
 *     raw[42:4]=0xcafe0000/0xffff0000      -> ctx1
 *     udp.dport=5000-5999                  -> drop
 *     any                                  -> host
 *
 * One rule per line or up to a semicolon, in order of priority. A packet that no rule takes goes to
 * the host. A field takes a value, a value/mask or a range low-high; an address may also be
 * dotted (ipv4) or with colons (eth), a mask of ipv4 a prefix length. BASE[offset:bytes] are 1 to 8
 * bytes, big-endian, from the start of the packet (raw) or of a part of it (ipv4, udp, payload).
 *
 * A rule on a header holds only where the header is. A malformed packet (headers.h) has no headers,
 * so it is taken by rules on raw bytes and by `any` alone; else it goes to the host, counted. */
#ifndef SPIN_NIC_MATCH_H
#define SPIN_NIC_MATCH_H

#include <stddef.h>

#include "nic/headers.h"
#include "openspin.h"

#define NIC_MATCH_RULES    256 /* in a table */
#define NIC_MATCH_TERMS    8   /* in a rule */
#define NIC_MATCH_CONTEXTS 4096

#define NIC_TO_HOST (-1)
#define NIC_TO_DROP (-2)

struct nic_match;

struct nic_verdict {
    int32_t target; /* the number of an execution context, NIC_TO_HOST or NIC_TO_DROP */
    int32_t rule;   /* which one decided, from 0; -1: none */
    enum headers_fault fault;
};

/* `name` stands for the text in messages (a file, "--match"). Contexts are 0 to contexts - 1. */
int nic_match_parse(struct nic_match **out, const char *name, const char *text, size_t length,
                    uint32_t contexts, struct spin_error *err);
/* The same from a file. */
int nic_match_read(struct nic_match **out, const char *path, uint32_t contexts,
                   struct spin_error *err);
void nic_match_free(struct nic_match *m);

struct nic_verdict nic_match_packet(const struct nic_match *m, enum nic_link link,
                                    const uint8_t *bytes, uint32_t length);

uint32_t nic_match_rules(const struct nic_match *m);
/* The rule as it was written, without blanks around it. */
const char *nic_match_rule_text(const struct nic_match *m, uint32_t rule);
/* The fields by name, with what they are; false past the last one. */
bool nic_match_field(uint32_t i, const char **name, const char **what);

#endif
