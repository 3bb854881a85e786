/* The runs of workloads that the tests make. */
#ifndef TESTS_WORKLOADS_H
#define TESTS_WORKLOADS_H

#include <stddef.h>

/* Smaller than the paper's, and odd where the code could mind. NULL: the defaults. */
static const struct {
    const char *name, *settings[5];
} small[] = {
    {"aggregate", {"bytes=10004", "payload=1000", NULL}},
    {"aggregate", {"bytes=4", NULL}},
    {"copy_from_host", {"packets=30", "bytes=333", NULL}},
    {"copy_to_host", {"packets=30", "bytes=333", NULL}},
    {"copy_to_host", {"packets=30", "apart=0", NULL}},
    {"empty", {"packets=30", "messages=7", NULL}},
    {"filtering", {"messages=60", "bytes=100", NULL}},
    {"histogram", {"messages=20", "words=33", NULL}},
    {"host_direct", {"packets=30", NULL}},
    {"kvstore", {"requests=600", "keys=900", "theta=70", NULL}},
    {"ping_pong", {"packets=30", "bytes=29", NULL}},
    {"reduce", {"packets=20", "words=100", "messages=3", NULL}},
    {"remote_write", {"messages=9", "bytes=3000", "payload=333", "refused=0", NULL}},
    {"remote_write", {"messages=40", "bytes=900", "payload=100", "refused=40", NULL}},
    {"strided_ddt", {"bytes=10001", "payload=1000", NULL}},
    {"strided_ddt", {"bytes=5000", "payload=100", "block=7", "stride=9", NULL}},
    {"synthetic", {"packets=5", "instructions=77", NULL}},
};
#define SMALL (sizeof small / sizeof small[0])

#endif
