/* The gdb stub against a peer that is not gdb: wrong, cut off, oversized and hostile packets. The
 * server must survive all of it and the handler must end as it does without a debugger. */
#include "lib/test.h"

#include <arpa/inet.h>
#include <elf.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/rng.h"
#include "hpu/map.h"
#include "openspin.h"
#include "spin/driver.h"

/* f(n, state): adds up n, n-1, ..., 1 and keeps the sum in the state. n 0 takes 2^32 rounds. */
static const uint32_t program[] = {
    0x00000613, /*       li   a2, 0      */
    0x00a60633, /* loop: add  a2, a2, a0 */
    0x00c5a023, /*       sw   a2, 0(a1)  */
    0xfff50513, /*       addi a0, a0, -1 */
    0xfe051ae3, /*       bnez a0, loop   */
    0x00060513, /*       mv   a0, a2     */
    0x00008067, /*       ret             */
};
#define LOOP (MAP_PROGRAM + 4)

static int load_program(struct spin_image **image, struct spin_error *err) {
    struct {
        Elf32_Ehdr header;
        Elf32_Phdr segment;
        Elf32_Shdr section[3];
        Elf32_Sym none;
        uint32_t code[sizeof program / 4];
        char names[4];
    } file = {
        .header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS32, ELFDATA2LSB, EV_CURRENT},
                   .e_type = ET_EXEC,
                   .e_machine = EM_RISCV,
                   .e_version = EV_CURRENT,
                   .e_phoff = offsetof(__typeof__(file), segment),
                   .e_phentsize = sizeof(Elf32_Phdr),
                   .e_phnum = 1,
                   .e_shoff = offsetof(__typeof__(file), section),
                   .e_shentsize = sizeof(Elf32_Shdr),
                   .e_shnum = 3},
        .segment = {.p_type = PT_LOAD,
                    .p_flags = PF_R | PF_X,
                    .p_vaddr = MAP_PROGRAM,
                    .p_offset = offsetof(__typeof__(file), code),
                    .p_filesz = sizeof program,
                    .p_memsz = sizeof program},
        .section = {[1] = {.sh_type = SHT_SYMTAB,
                           .sh_link = 2,
                           .sh_offset = offsetof(__typeof__(file), none),
                           .sh_size = sizeof(Elf32_Sym),
                           .sh_entsize = sizeof(Elf32_Sym)},
                    [2] = {.sh_type = SHT_STRTAB,
                           .sh_offset = offsetof(__typeof__(file), names),
                           .sh_size = sizeof file.names}},
    };
    memcpy(file.code, program, sizeof program);
    return spin_image_parse(image, "program", &file, sizeof file, NULL, err);
}

/* ---- A server in a thread and a client that says what it likes */

struct session {
    struct spin_image *image;
    struct spin_rig *rig;
    struct spin_call call;
    uint32_t state; /* its address */
    pthread_t thread;
    int port_pipe[2], fd;
    int code;
    struct spin_outcome outcome;
    struct spin_error err;
};

static void tell_port(void *context, uint16_t port) {
    struct session *s = context;
    if (write(s->port_pipe[1], &port, sizeof port) != sizeof port)
        abort();
}

static void *serve(void *context) {
    struct session *s = context;
    s->code = spin_rig_debug(s->rig, &s->call, 0, tell_port, s, &s->outcome, &s->err);
    return NULL;
}

static void ready(struct session *s, uint32_t count, uint64_t budget) {
    struct spin_rig_options options = {.budget = budget};
    uint32_t bytes;
    memset(s, 0, sizeof *s);
    CHECK_EQ(load_program(&s->image, &s->err), SPIN_OK);
    CHECK_EQ(spin_rig_new(&s->rig, s->image, &options, &s->err), SPIN_OK);
    spin_rig_memory(s->rig, SPIN_STATE, &bytes, &s->state);
    s->call = (struct spin_call){
        .entry = MAP_PROGRAM, .kind = SPIN_OTHER_FUNCTION, .argument = {count, s->state}};
}

static void release(struct session *s) {
    spin_rig_free(s->rig);
    spin_image_free(s->image);
}

static void open_session(struct session *s, uint32_t count, uint64_t budget) {
    alarm(100); /* a server that hangs fails the test */
    ready(s, count, budget);
    CHECK(pipe(s->port_pipe) == 0);
    CHECK(pthread_create(&s->thread, NULL, serve, s) == 0);
    uint16_t port;
    CHECK_EQ(read(s->port_pipe[0], &port, sizeof port), sizeof port);
    struct sockaddr_in there = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_sec = 20};
    int little = 4096; /* so that it is soon full when nobody reads */
    s->fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(s->fd, SOL_SOCKET, SO_RCVBUF, &little, sizeof little);
    CHECK(connect(s->fd, (struct sockaddr *)&there, sizeof there) == 0);
    setsockopt(s->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
}

static void end_session(struct session *s) {
    close(s->fd);
    pthread_join(s->thread, NULL);
    close(s->port_pipe[0]);
    close(s->port_pipe[1]);
    CHECK_EQ(s->code, SPIN_OK);
}

/* The end when nothing was changed: the sum of 1 to 10, and the counts of a plain call. */
static void end_well(struct session *s) {
    end_session(s);
    CHECK_EQ(s->outcome.ending, SPIN_RETURNED);
    CHECK_EQ(s->outcome.value, 55);
    struct session plain;
    ready(&plain, 10, 0);
    CHECK_EQ(spin_rig_call(plain.rig, &plain.call, &plain.outcome, &plain.err), SPIN_OK);
    CHECK_EQ(s->outcome.cycles, plain.outcome.cycles);
    CHECK_EQ(s->outcome.instructions, plain.outcome.instructions);
    CHECK_EQ(s->outcome.icache_misses, plain.outcome.icache_misses);
    CHECK_EQ(s->outcome.stores[SPIN_REGION_L1], plain.outcome.stores[SPIN_REGION_L1]);
    release(&plain);
    release(s);
}

static void say_raw(struct session *s, const void *bytes, size_t count) {
    const char *b = bytes;
    while (count) {
        ssize_t sent = send(s->fd, b, count, MSG_NOSIGNAL);
        if (sent < 0 && (errno == EPIPE || errno == ECONNRESET))
            return; /* it ended the session, as it may */
        CHECK(sent > 0);
        b += sent;
        count -= (size_t)sent;
    }
}

static void say_bytes(struct session *s, const char *text, size_t length) {
    static char frame[200000];
    uint8_t sum = 0;
    for (size_t i = 0; i < length; i++)
        sum = (uint8_t)(sum + (uint8_t)text[i]);
    frame[0] = '$';
    memcpy(frame + 1, text, length);
    sprintf(frame + 1 + length, "#%02x", sum);
    say_raw(s, frame, length + 4);
}

static void say(struct session *s, const char *text) {
    say_bytes(s, text, strlen(text));
}

static char hear_byte(struct session *s) {
    char c;
    if (recv(s->fd, &c, 1, 0) != 1)
        TEST_FAIL("no answer");
    return c;
}

/* The next packet, with its checksum checked; acknowledgements before it are passed over. */
static const char *hear(struct session *s) {
    static char text[5000];
    size_t length = 0;
    uint8_t sum = 0;
    char c;
    do
        c = hear_byte(s);
    while (c == '+');
    CHECK_EQ(c, '$');
    while ((c = hear_byte(s)) != '#') {
        CHECK(length + 1 < sizeof text);
        text[length++] = c;
        sum = (uint8_t)(sum + (uint8_t)c);
    }
    text[length] = 0;
    char said[3] = {hear_byte(s), 0, 0};
    said[1] = hear_byte(s);
    CHECK_EQ(strtol(said, NULL, 16), sum);
    return text;
}

#define ASK(s, question, answer)                                                                   \
    do {                                                                                           \
        say(s, question);                                                                          \
        CHECK_STR(hear(s), answer);                                                                \
    } while (0)

static const char *text_of(const char *format, ...) __attribute__((format(printf, 1, 2)));
static const char *text_of(const char *format, ...) {
    static char text[4][300];
    static int next;
    va_list args;
    char *t = text[next++ % 4];
    va_start(args, format);
    vsnprintf(t, sizeof text[0], format, args);
    va_end(args);
    return t;
}

/* ---- Frames */

TEST(a_peer_that_closes_at_once_lets_the_handler_run) {
    struct session s;
    open_session(&s, 10, 0);
    end_well(&s);
}

TEST(half_a_packet_and_gone) {
    static const char *const half[] = {"$", "$m1d00", "$g#", "$g#6", "$X1000,4:}", "+++", "-", "#"};
    for (size_t i = 0; i < sizeof half / sizeof half[0]; i++) {
        struct session s;
        open_session(&s, 10, 0);
        say_raw(&s, half[i], strlen(half[i]));
        end_well(&s);
    }
}

TEST(a_bad_checksum_is_asked_for_again) {
    static const char *const bad[] = {"$?#00", "$?#zz", "$?#3", "$?}#bc"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct session s;
        open_session(&s, 10, 0);
        say_raw(&s, bad[i], strlen(bad[i]));
        if (strlen(bad[i]) == 4)
            say_raw(&s, "x", 1);
        CHECK_EQ(hear_byte(&s), '-');
        ASK(&s, "?", "T05thread:1;");
        end_well(&s);
    }
}

TEST(without_acks_a_bad_checksum_is_an_error) {
    struct session s;
    open_session(&s, 10, 0);
    ASK(&s, "QStartNoAckMode", "OK");
    say_raw(&s, "+$c#00", 6);
    CHECK_STR(hear(&s), "E01");
    ASK(&s, "p20", "0000001d"); /* it did not run */
    say_raw(&s, "-", 1);        /* means nothing now */
    ASK(&s, "?", "T05thread:1;");
    end_well(&s);
}

TEST(a_lost_reply_is_sent_again) {
    struct session s;
    open_session(&s, 10, 0);
    say_raw(&s, "-", 1); /* nothing was sent yet */
    ASK(&s, "qC", "QC1");
    say_raw(&s, "-", 1);
    CHECK_STR(hear(&s), "QC1");
    end_well(&s);
}

TEST(oversized_packets_are_refused) {
    static char huge[100000];
    struct session s;
    open_session(&s, 10, 0);
    for (size_t length = 4090; length < 4100; length++) {
        memset(huge, 'u', length); /* no such command */
        say_bytes(&s, huge, length);
        CHECK_STR(hear(&s), length <= 4096 ? "" : "E01");
    }
    memset(huge, 'k', sizeof huge);
    say_bytes(&s, huge, sizeof huge);
    CHECK_STR(hear(&s), "E01");
    ASK(&s, "?", "T05thread:1;");
    end_well(&s);
}

TEST(a_packet_without_end_is_given_up_for_the_next) {
    static char noise[100000];
    struct session s;
    open_session(&s, 10, 0);
    memset(noise, 'm', sizeof noise);
    say_raw(&s, "$", 1);
    for (int i = 0; i < 10; i++)
        say_raw(&s, noise, sizeof noise);
    ASK(&s, "?", "T05thread:1;");
    say_raw(&s, noise, sizeof noise); /* between packets */
    ASK(&s, "?", "T05thread:1;");
    end_well(&s);
}

/* ---- Commands */

TEST(malformed_commands_are_errors_and_change_nothing) {
    static const char *const bad[] = {"m",
                                      "m1d000000",
                                      "m1d000000,",
                                      "m1d000000,4x",
                                      "m1d000000,0",
                                      "m1d000000,801",
                                      "m,4",
                                      "mffffffff,2",
                                      "m100000000,1",
                                      "m-1,4",
                                      "M1d000000,4",
                                      "M10010400,4:00",
                                      "M10010400,1:000",
                                      "M10010400,1:0x",
                                      "M10010400,1001:00",
                                      "X10010400,4:abc",
                                      "X10010400",
                                      "p",
                                      "p21",
                                      "pffffffff",
                                      "px",
                                      "P0",
                                      "P1=",
                                      "P1=0011",
                                      "P1=001122334",
                                      "P21=00000000",
                                      "G",
                                      "G00",
                                      "czz",
                                      "C",
                                      "Czz",
                                      "C05;",
                                      "C05;xx",
                                      "C05,1000",
                                      "s 1000",
                                      "vCont",
                                      "vCont;",
                                      "vCont;x",
                                      "vCont;c:",
                                      "vCont;C",
                                      "vCont;c;",
                                      "vCont;c:7",
                                      "vCont;r1",
                                      "vCont;r1,",
                                      "vCont;cc",
                                      "Z",
                                      "Z0",
                                      "Z0,",
                                      "Z0,1d000000",
                                      "Z0,1d000000,",
                                      "Z0,1d000000,4;x",
                                      "Z2,ffffffff,2",
                                      "zx,1,1",
                                      "qRcmd,6",
                                      "qRcmd,zz",
                                      "qXfer:features:read:other.xml:0,100",
                                      "qXfer:features:read:target.xml:",
                                      "qXfer:features:read:target.xml:0",
                                      "qXfer:features:read:target.xml:0,x"};
    struct session s;
    open_session(&s, 10, 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        say(&s, bad[i]);
        const char *answer = hear(&s);
        if (strcmp(answer, "E01") != 0)
            TEST_FAIL("%s was answered with %s", bad[i], answer);
    }
    static const char *const unknown[] = {"",  "!",      "R00",      "b",      "Q", "QNonStop:1",
                                          "q", "qOther", "vRun;x;y", "Z5,1,1", "t", "\x01"};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
        ASK(&s, unknown[i], "");
    end_well(&s);
}

TEST(memory_is_what_the_handler_was_given) {
    struct session s;
    open_session(&s, 10, 0);
    ASK(&s, "m1d000000,8", "130600003306a600");
    ASK(&s, "m1d000018,20", "67800000"); /* the code ends there */
    ASK(&s, "m1d00001c,4", "E0e");
    ASK(&s, "m0,4", "E0e");
    ASK(&s, "mfffffffc,4", "E0e");
    ASK(&s, text_of("m%x,8", s.state + 4094), "0000");
    ASK(&s, text_of("M%x,4:01020304", s.state), "OK");
    ASK(&s, text_of("m%x,4", s.state), "01020304");
    ASK(&s, text_of("M%x,4:01020304", s.state + 4094), "E0e"); /* all or nothing */
    ASK(&s, text_of("m%x,2", s.state + 4094), "0000");
    ASK(&s, "M1d000000,4:00000000", "E0e");
    ASK(&s, "M1b205000,4:00000000", "E0e"); /* the HPU driver: looking is allowed */
    ASK(&s, text_of("m%x,2", MAP_DRIVER + SPIN_REG_MEMORY_ADDRESS + 2), "0110");
    char binary[64];
    int length = sprintf(binary, "X%x,6:", s.state);
    memcpy(binary + length, "\0}\x03}\x04}]\x03\x7f", 9); /* 00 '#' '$' '}' 03 7f */
    say_bytes(&s, binary, (size_t)length + 9);
    CHECK_STR(hear(&s), "OK");
    ASK(&s, text_of("m%x,6", s.state), "0023247d037f");
    ASK(&s, text_of("X%x,0:", s.state), "OK");
    end_well(&s);
}

TEST(registers_are_read_and_written) {
    struct session s;
    open_session(&s, 3, 0);
    ASK(&s, "pa", "03000000");
    ASK(&s, "Pa=0a000000", "OK");
    ASK(&s, "P0=ffffffff", "OK");
    ASK(&s, "p0", "00000000");
    say(&s, "g");
    char all[300] = "G";
    strcat(all, hear(&s));
    CHECK_EQ(strlen(all), 1 + 33 * 8);
    ASK(&s, all, "OK");
    ASK(&s, "c", "W37");
    end_well(&s);
}

/* ---- Running */

TEST(breakpoints_stop_before_and_never_where_it_stands) {
    struct session s;
    open_session(&s, 10, 0);
    ASK(&s, text_of("Z0,%x,4", MAP_PROGRAM), "OK");
    ASK(&s, text_of("Z0,%x,4", LOOP), "OK");
    ASK(&s, text_of("Z0,%x,2", LOOP), "OK"); /* again */
    ASK(&s, "c", "T05thread:1;");            /* gdb did not say that it knows swbreak */
    say(&s, "qSupported:swbreak+;hwbreak+");
    CHECK_HAS(hear(&s), "PacketSize=1000;");
    ASK(&s, "vCont;c", "T05thread:1;swbreak:;");
    ASK(&s, "p20", "0400001d");
    ASK(&s, "pa", "09000000");
    ASK(&s, text_of("z0,%x,4", LOOP), "OK");
    ASK(&s, text_of("Z1,%x,4", LOOP + 8), "OK");
    ASK(&s, "vCont;c:1;c", "T05thread:1;hwbreak:;");
    ASK(&s, text_of("z1,%x,4", LOOP + 8), "OK");
    ASK(&s, text_of("z1,%x,4", LOOP + 8), "OK"); /* again */
    ASK(&s, "vCont;s:1;c:-1", "T05thread:1;");
    ASK(&s, "p20", "1000001d");
    ASK(&s, text_of("vCont;r%x,%x:1", LOOP, LOOP + 16), "T05thread:1;"); /* the rest of the loop */
    ASK(&s, "p20", "1400001d");
    ASK(&s, "s", "T05thread:1;");
    ASK(&s, "S05", "W37");
    end_well(&s);
}

TEST(watchpoints_say_what_was_touched) {
    struct session s;
    open_session(&s, 10, 0);
    ASK(&s, text_of("Z2,%x,1", s.state + 2), "OK");
    ASK(&s, "c", text_of("T05thread:1;watch:%x;", s.state + 2));
    ASK(&s, "p20", "0c00001d"); /* behind the store */
    ASK(&s, text_of("z2,%x,1", s.state + 2), "OK");
    ASK(&s, text_of("Z3,%x,4", s.state), "OK"); /* nothing reads it */
    ASK(&s, text_of("Z2,%x,4", s.state + 4), "OK");
    ASK(&s, text_of("Z2,%x,4", s.state - 4), "OK");
    ASK(&s, text_of("Z4,%x,100", s.state - 0x80), "OK");
    ASK(&s, "c", text_of("T05thread:1;awatch:%x;", s.state));
    ASK(&s, text_of("z4,%x,100", s.state - 0x80), "OK");
    ASK(&s, "c", "W37");
    end_well(&s);
}

TEST(the_table_of_stops_has_an_end) {
    struct session s;
    open_session(&s, 10, 0);
    for (uint32_t i = 0; i < 128; i++)
        ASK(&s, text_of("Z0,%x,4", 0x1000 + i), "OK");
    ASK(&s, "Z0,1000,4", "OK");
    ASK(&s, "Z0,2000,4", "E1c");
    ASK(&s, "z0,1000,4", "OK");
    ASK(&s, "Z0,2000,4", "OK");
    ASK(&s, "c", "W37");
    end_well(&s);
}

TEST(ctrl_c_stops_it_and_kill_ends_it) {
    for (int stepped = 0; stepped < 2; stepped++) {
        struct session s;
        open_session(&s, 0, UINT64_MAX);
        say_raw(&s, "\x03", 1); /* it stands already */
        if (stepped)
            ASK(&s, "Z0,1000,4", "OK");
        say(&s, "c");
        usleep(20000);
        say_raw(&s, "\x03", 1);
        CHECK_STR(hear(&s), "T02thread:1;");
        say(&s, "vCont;c");
        say_raw(&s, "\x03", 1);
        CHECK_STR(hear(&s), "T02thread:1;");
        say(&s, "qRcmd,6379636c6573"); /* cycles */
        CHECK_HAS(hear(&s), "6379636c657320");
        say(&s, stepped ? "k" : "vKill;1");
        end_session(&s);
        CHECK_EQ(s.outcome.ending, SPIN_ENDED_KILLED);
        CHECK_STR(spin_ending_name(s.outcome.ending), "killed by the debugger");
        CHECK(s.outcome.cycles > 0 && s.outcome.pc >= MAP_PROGRAM);
        release(&s);
    }
}

TEST(a_peer_that_goes_while_it_runs_lets_it_run) {
    for (int stepped = 0; stepped < 2; stepped++) {
        struct session s;
        open_session(&s, 0, 20000000);
        if (stepped)
            ASK(&s, text_of("Z2,%x,4", s.state + 8), "OK");
        say(&s, "c");
        say(&s, "?"); /* has to wait, for ever as it turns out */
        end_session(&s);
        CHECK_EQ(s.outcome.ending, SPIN_ENDED_BUDGET);
        CHECK(s.outcome.cycles >= 20000000);
        release(&s);
    }
}

TEST(a_fault_is_a_signal_then_the_end) {
    struct session s;
    open_session(&s, 10, 0);
    ASK(&s, "Pb=00000000", "OK"); /* the state's address */
    ASK(&s, "c", "T0bthread:1;");
    ASK(&s, "?", "T0bthread:1;");
    ASK(&s, "p20", "0800001d");
    ASK(&s, "C0b", "X0b");
    end_session(&s);
    CHECK_EQ(s.outcome.ending, SPIN_ENDED_SEGV);
    CHECK_EQ(s.outcome.pc, LOOP + 4);
    release(&s);
    open_session(&s, 10, 0);
    ASK(&s, "c0", "T0bthread:1;");
    end_session(&s);
    CHECK_EQ(s.outcome.ending, SPIN_ENDED_SEGV);
    release(&s);
    open_session(&s, 0, 1000);
    ASK(&s, "c", "T18thread:1;");
    say(&s, "k");
    end_session(&s);
    CHECK_EQ(s.outcome.ending, SPIN_ENDED_BUDGET);
    release(&s);
}

TEST(a_peer_that_does_not_read_is_left) {
    struct session s;
    open_session(&s, 10, 0);
    char many[4000];
    size_t used = 0;
    while (used + 20 < sizeof many)
        used += (size_t)sprintf(many + used, "$m1d000000,1c#f6");
    while (pthread_tryjoin_np(s.thread, NULL) != 0) /* the alarm ends it otherwise */
        if (send(s.fd, many, used, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            usleep(50000);
    close(s.fd);
    close(s.port_pipe[0]);
    close(s.port_pipe[1]);
    CHECK_EQ(s.outcome.ending, SPIN_RETURNED); /* it ended without us */
    CHECK_EQ(s.outcome.value, 55);
    release(&s);
}

TEST(a_port_in_use_is_one_line) {
    struct session s;
    ready(&s, 10, 0);
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof here;
    int other = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(other, (struct sockaddr *)&here, sizeof here) == 0 && listen(other, 1) == 0);
    CHECK(getsockname(other, (struct sockaddr *)&here, &size) == 0);
    CHECK_EQ(spin_rig_debug(s.rig, &s.call, ntohs(here.sin_port), NULL, NULL, &s.outcome, &s.err),
             SPIN_ESYS);
    CHECK_HAS(s.err.text, "is in use");
    CHECK(!strchr(s.err.text, '\n'));
    close(other);
    release(&s);
}

/* ---- At random, by seed */

static void drain(struct session *s) {
    char bytes[4096];
    while (recv(s->fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        ;
}

TEST(noise_never_harms) {
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct rng rng = rng_seeded(seed);
        struct session s;
        open_session(&s, 10, 100000);
        for (int i = 0; i < 20; i++) {
            uint8_t bytes[512];
            for (size_t b = 0; b < sizeof bytes; b++)
                bytes[b] = rng_below(&rng, 8) ? (uint8_t)rng_u64(&rng)
                                              : (uint8_t) "$#}+-\x03gk0"[rng_below(&rng, 9)];
            say_raw(&s, bytes, sizeof bytes);
            drain(&s);
        }
        end_session(&s);
        release(&s);
    }
}

/* Well framed, with one thing wrong: whatever it does, the server ends with some outcome. */
TEST(mutated_commands_never_harm) {
    static const char *const seeds[] = {"qSupported:swbreak+;hwbreak+",
                                        "g",
                                        "p20",
                                        "P20=0400001d",
                                        "m10010400,40",
                                        "M10010400,4:11223344",
                                        "X10010400,4:abcd",
                                        "Z0,1d000004,4",
                                        "Z2,10010400,4",
                                        "z0,1d000004,4",
                                        "s",
                                        "c1d000004",
                                        "vCont;r1d000004,1d000010:1;c",
                                        "vCont;s:1",
                                        "qXfer:features:read:target.xml:0,fff",
                                        "qRcmd,6379636c6573",
                                        "H g0",
                                        "?"};
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct rng rng = rng_seeded(1000 + seed);
        struct session s;
        open_session(&s, 10, 20000);
        for (int i = 0; i < 40; i++) {
            char text[64];
            uint64_t which = rng_below(&rng, sizeof seeds / sizeof seeds[0]);
            size_t length = strlen(strcpy(text, seeds[which]));
            for (uint64_t n = rng_below(&rng, 4); n; n--)
                text[rng_below(&rng, length)] =
                    "0123456789abcdef,;:=}-vcsZ\0xf"[rng_below(&rng, 29)];
            say_bytes(&s, text, rng_below(&rng, 5) ? length : rng_below(&rng, length + 1));
            if (rng_below(&rng, 2))
                drain(&s);
        }
        end_session(&s);
        release(&s);
    }
}

TEST_MAIN
