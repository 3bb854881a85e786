#include "diff/guest.h"

#include <elf.h>
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE    4096u
#define HARNESS 0x1e000000u             /* code, then its one variable, then the descriptors */
#define CONTROL (HARNESS + PAGE)        /* address of the next descriptor, address of their end */
#define TABLE   (HARNESS + 2 * PAGE)    /* one descriptor a program */
#define SAVED   (DIFF_DATA - 128u * 4u) /* registers, directly before the data: one write */

/* What the harness loads before each program, in words; the data's content follows. */
enum { ENTRY = 0, X = 1, F = 33, FCSR = 65, CONTENT = 66, WORDS = 66 + DIFF_DATA_BYTES / 4 };

enum { ZERO = 0, RA = 1, GP = 3, T0 = 5, T1 = 6, T2 = 7, A0 = 10, A1 = 11, A2 = 12, A7 = 17 };

/* The loop over the programs. All its state is in memory, as programs use all registers; gp is the
 * one that they leave alone. */
static void assemble_harness(struct program *p) {
    p->bytes = 0;
    uint32_t top = p->bytes;
    put_li(p, GP, CONTROL);
    put(p, rv_lw(GP, GP, 0)); /* gp: the descriptor */
    put_li(p, T0, CONTROL);
    put(p, rv_lw(T0, T0, 4));
    uint32_t leave = p->bytes;
    put(p, RV_NOP); /* patched: to the exit when there is none left */
    /* the data */
    put_li(p, T0, DIFF_DATA);
    put_li(p, T1, DIFF_DATA + DIFF_DATA_BYTES);
    put(p, rv_addi(T2, GP, 4 * CONTENT));
    put(p, rv_lw(A0, T2, 0));
    put(p, rv_sw(A0, T0, 0));
    put(p, rv_addi(T0, T0, 4));
    put(p, rv_addi(T2, T2, 4));
    put(p, rv_bne(T0, T1, -16));
    /* no reservation of an earlier program */
    put_li(p, T0, SAVED);
    put(p, rv_sc_w(T1, ZERO, T0));
    put(p, rv_lw(T0, GP, 4 * FCSR));
    put(p, rv_csrrw(ZERO, 3, T0));
    for (uint32_t i = 0; i < 32; i++)
        put(p, rv_flw(i, GP, 4 * (int32_t)(F + i)));
    put(p, rv_lw(RA, GP, 4 * ENTRY));
    for (uint32_t i = 2; i < 32; i++)
        if (i != GP)
            put(p, rv_lw(i, GP, 4 * (int32_t)(X + i)));
    put(p, rv_jalr(RA, RA, 0));
    put_li(p, GP, SAVED);
    for (uint32_t i = 1; i < 32; i++)
        put(p, rv_sw(i, GP, 4 * (int32_t)i));
    for (uint32_t i = 0; i < 32; i++)
        put(p, rv_fsw(i, GP, 4 * (int32_t)(32 + i)));
    put(p, rv_csrrs(T0, 3, ZERO));
    put(p, rv_sw(T0, GP, 4 * 64));
    put(p, rv_addi(A7, ZERO, 64)); /* write(1, saved, registers and data) */
    put(p, rv_addi(A0, ZERO, 1));
    put(p, rv_addi(A1, GP, 0));
    put(p, rv_addi(A2, ZERO, sizeof(struct diff_outcome)));
    put(p, RV_ECALL);
    put_li(p, T0, CONTROL);
    put(p, rv_lw(T1, T0, 0));
    put(p, rv_addi(T1, T1, 4 * WORDS));
    put(p, rv_sw(T1, T0, 0));
    put(p, rv_jal(ZERO, (int32_t)top - (int32_t)p->bytes));
    uint32_t exit_at = p->bytes;
    put(p, rv_addi(A7, ZERO, 93));
    put(p, rv_addi(A0, ZERO, 0));
    put(p, RV_ECALL);
    uint32_t end = p->bytes;
    p->bytes = leave;
    put(p, rv_beq(GP, T0, (int32_t)(exit_at - leave)));
    p->bytes = end;
}

struct segment {
    uint32_t address, bytes, flags;
    const void *content; /* NULL: zeroes */
};

static size_t page_up(size_t bytes) {
    return (bytes + PAGE - 1) & ~(size_t)(PAGE - 1);
}

static bool write_elf(FILE *file, const struct segment *segment, int count) {
    Elf32_Ehdr head = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS32, ELFDATA2LSB, 1},
                       .e_type = ET_EXEC,
                       .e_machine = EM_RISCV,
                       .e_version = 1,
                       .e_entry = HARNESS,
                       .e_phoff = sizeof head,
                       .e_flags = 1 | 2, /* RVC, single floats in registers */
                       .e_ehsize = sizeof head,
                       .e_phentsize = sizeof(Elf32_Phdr),
                       .e_phnum = (Elf32_Half)count};
    fwrite(&head, sizeof head, 1, file);
    uint32_t offset = PAGE;
    for (int i = 0; i < count; i++) {
        uint32_t in_file = segment[i].content ? segment[i].bytes : 0;
        Elf32_Phdr p = {.p_type = PT_LOAD,
                        .p_offset = offset,
                        .p_vaddr = segment[i].address,
                        .p_paddr = segment[i].address,
                        .p_filesz = in_file,
                        .p_memsz = segment[i].bytes,
                        .p_flags = segment[i].flags,
                        .p_align = PAGE};
        fwrite(&p, sizeof p, 1, file);
        offset += (uint32_t)page_up(in_file);
    }
    offset = PAGE;
    for (int i = 0; i < count; i++) {
        uint32_t in_file = segment[i].content ? segment[i].bytes : 0;
        fseek(file, (long)offset, SEEK_SET);
        fwrite(segment[i].content ? segment[i].content : "", in_file, 1, file);
        offset += (uint32_t)page_up(in_file);
    }
    return !ferror(file);
}

static uint32_t *make_table(const struct diff_program *programs, const uint32_t *address,
                            int count) {
    uint32_t *table = calloc((size_t)count, WORDS * 4);
    for (int i = 0; table && i < count; i++) {
        uint32_t *d = table + i * WORDS;
        d[ENTRY] = address[i];
        memcpy(d + X, programs[i].x, sizeof programs[i].x);
        memcpy(d + F, programs[i].f, sizeof programs[i].f);
        d[FCSR] = programs[i].fcsr;
        memcpy(d + CONTENT, programs[i].data, DIFF_DATA_BYTES);
    }
    return table;
}

static bool make_executable(const char *path, const struct diff_program *programs,
                            const uint32_t *address, int count, const uint8_t *code,
                            size_t code_bytes) {
    struct program harness = {0};
    assemble_harness(&harness);
    uint32_t *table = make_table(programs, address, count);
    uint32_t table_bytes = (uint32_t)count * WORDS * 4, control[2] = {TABLE, TABLE + table_bytes};
    FILE *file = table ? fopen(path, "wb") : NULL;
    bool good = false;
    if (file) {
        const struct segment segments[] = {
            {DIFF_DATA - PAGE, PAGE + DIFF_DATA_BYTES, PF_R | PF_W, NULL},
            {DIFF_CODE, (uint32_t)code_bytes, PF_R | PF_X, code},
            {HARNESS, harness.bytes, PF_R | PF_X, harness.byte},
            {CONTROL, sizeof control, PF_R | PF_W, control},
            {TABLE, table_bytes, PF_R, table},
        };
        good = write_elf(file, segments, 5);
        good = fclose(file) == 0 && good && chmod(path, 0700) == 0;
    }
    free(table);
    return good;
}

int diff_guest_run(const char *qemu, const struct diff_program *programs, const uint32_t *address,
                   int count, const uint8_t *code, size_t code_bytes, struct diff_outcome *outcomes,
                   char *why, size_t room) {
    char directory[] = "/tmp/openspin-diff-XXXXXX", path[64];
    if (!mkdtemp(directory)) {
        snprintf(why, room, "cannot make a directory in /tmp: %s", strerror(errno));
        return -1;
    }
    snprintf(path, sizeof path, "%s/batch", directory);
    int done = -1, ends[2] = {-1, -1};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    if (!make_executable(path, programs, address, count, code, code_bytes) || pipe(ends) != 0) {
        snprintf(why, room, "cannot write %s: %s", path, strerror(errno));
        goto out;
    }
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    char *arguments[] = {(char *)(uintptr_t)qemu, path, NULL};
    extern char **environ;
    pid_t child;
    int failed = posix_spawnp(&child, qemu, &actions, NULL, arguments, environ);
    if (failed) {
        snprintf(why, room, "cannot run %s: %s", qemu, strerror(failed));
        goto out;
    }
    close(ends[1]);
    ends[1] = -1;
    size_t want = (size_t)count * sizeof *outcomes, got = 0;
    for (ssize_t n; got < want && (n = read(ends[0], (char *)outcomes + got, want - got)) > 0;)
        got += (size_t)n;
    int status;
    waitpid(child, &status, 0);
    done = (int)(got / sizeof *outcomes);
    if (WIFSIGNALED(status))
        snprintf(why, room, "qemu ended by signal %d", WTERMSIG(status));
    else
        snprintf(why, room, "qemu ended with status %d", WEXITSTATUS(status));
out:
    if (ends[0] >= 0)
        close(ends[0]);
    if (ends[1] >= 0)
        close(ends[1]);
    posix_spawn_file_actions_destroy(&actions);
    unlink(path);
    rmdir(directory);
    return done;
}
