#include "profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* One halfword of code: what was spent on the instruction that starts there. */
struct spent {
    uint64_t cycles, times;
};

/* Cycles of one source line, or of one function's instructions without lines. */
struct line_cost {
    const char *file;
    int line;
    uint64_t cycles, times;
};

struct profile {
    const struct spin_image *image;
    uint32_t base, halfwords;
    struct spent *spent;
    struct line_cost *costs; /* room to sum up in, so that what was counted can be printed */
    const char *file;        /* of the last line printed */
    int line;
};

struct profile *profile_new(const struct spin_image *image) {
    const struct spin_image_info *info = spin_image_info(image);
    struct profile *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->image = image;
    uint32_t end = 0;
    p->base = UINT32_MAX;
    for (uint32_t i = 0; i < info->functions; i++) {
        const struct spin_function *f = &info->function[i];
        if (f->address < p->base)
            p->base = f->address;
        if (f->address + f->bytes > end)
            end = f->address + f->bytes;
    }
    p->halfwords = end > p->base ? (end - p->base) / 2 : 0;
    p->spent = calloc(p->halfwords + 1, sizeof *p->spent);
    p->costs = calloc(p->halfwords + 1, sizeof *p->costs);
    if (p->spent && p->costs)
        return p;
    profile_free(p);
    return NULL;
}

void profile_free(struct profile *p) {
    if (!p)
        return;
    free(p->spent);
    free(p->costs);
    free(p);
}

void profile_count(void *profile, const struct spin_step *step) {
    struct profile *p = profile;
    uint32_t at = (step->pc - p->base) / 2;
    if (at < p->halfwords) {
        p->spent[at].cycles += step->cycles;
        p->spent[at].times++;
    }
}

void profile_wait(struct profile *p, uint32_t pc, uint64_t cycles) {
    uint32_t at = (pc - p->base) / 2;
    if (at < p->halfwords)
        p->spent[at].cycles += cycles;
}

const char *profile_base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Line `number` of a file into shown, without its end; false when it cannot be read. */
static bool source_line(const char *path, int number, char *shown, size_t room) {
    char text[300];
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    bool found = false;
    for (int i = 0; i < number && (found = fgets(text, sizeof text, f) != NULL);) {
        if (strchr(text, '\n') || feof(f))
            i++; /* a longer line comes in pieces */
    }
    fclose(f);
    if (!found)
        return false;
    text[strcspn(text, "\r\n")] = 0;
    for (char *tab = text; (tab = strchr(tab, '\t'));)
        *tab = ' ';
    text_show(shown, room, text);
    return true;
}

void profile_trace(void *profile, const struct spin_step *step) {
    struct profile *p = profile;
    profile_count(profile, step);
    const char *file;
    int line;
    char text[256];
    if (spin_image_line(p->image, step->pc, &file, &line) && (file != p->file || line != p->line)) {
        p->file = file;
        p->line = line;
        printf("%s:%d", profile_base_name(file), line);
        if (source_line(file, line, text, sizeof text))
            printf("  %s", text);
        printf("\n");
    }
    spin_image_disassemble(p->image, step->pc, text, sizeof text);
    const struct spin_function *f = spin_image_at(p->image, step->pc);
    printf("%8llu %3u  0x%08x %-24s %-30s", (unsigned long long)step->cycle, step->cycles, step->pc,
           f ? f->name : "", text);
    static const char *const names[32] = {"zero", "ra", "sp",  "gp",  "tp", "t0", "t1", "t2",
                                          "s0",   "s1", "a0",  "a1",  "a2", "a3", "a4", "a5",
                                          "a6",   "a7", "s2",  "s3",  "s4", "s5", "s6", "s7",
                                          "s8",   "s9", "s10", "s11", "t3", "t4", "t5", "t6"};
    for (int i = 1; i < 32; i++)
        if (step->before[i] != step->after[i])
            printf(" %s=0x%x", names[i], step->after[i]);
    printf("\n");
}

static int hotter(const void *a, const void *b) {
    const struct line_cost *p = a, *q = b;
    if (p->cycles != q->cycles)
        return p->cycles > q->cycles ? -1 : 1;
    int by_file = strcmp(p->file, q->file);
    return by_file ? by_file : p->line - q->line;
}

static void place_of(const struct profile *p, uint32_t at, const char **file, int *line) {
    uint32_t pc = p->base + 2 * at;
    if (!spin_image_line(p->image, pc, file, line)) {
        const struct spin_function *f = spin_image_at(p->image, pc);
        *file = f ? f->name : "?";
        *line = 0;
    }
}

static void print_instructions(const struct profile *p, const struct line_cost *cost,
                               double total) {
    for (uint32_t at = 0; at < p->halfwords; at++) {
        const char *file;
        int line;
        char text[80];
        if (!p->spent[at].times)
            continue;
        place_of(p, at, &file, &line);
        if (line != cost->line || strcmp(file, cost->file) != 0)
            continue;
        spin_image_disassemble(p->image, p->base + 2 * at, text, sizeof text);
        printf("%10llu %5.1f%% %9llu x    0x%08x  %s\n", (unsigned long long)p->spent[at].cycles,
               100 * (double)p->spent[at].cycles / total, (unsigned long long)p->spent[at].times,
               p->base + 2 * at, text);
    }
}

void profile_print(const struct profile *p, const struct spin_outcome *outcome) {
    struct line_cost *costs = p->costs;
    size_t count = 0;
    for (uint32_t at = 0; at < p->halfwords; at++) {
        if (!p->spent[at].times)
            continue;
        const char *file;
        int line;
        size_t i = 0;
        place_of(p, at, &file, &line);
        while (i < count && (costs[i].line != line || strcmp(costs[i].file, file) != 0))
            i++;
        if (i == count)
            costs[count++] = (struct line_cost){.file = file, .line = line};
        costs[i].cycles += p->spent[at].cycles;
        if (p->spent[at].times > costs[i].times)
            costs[i].times = p->spent[at].times;
    }
    qsort(costs, count, sizeof *costs, hotter);
    double total = outcome->cycles ? (double)outcome->cycles : 1;
    printf("    cycles  share     times    source, hottest first\n");
    for (size_t i = 0; i < count; i++) {
        char text[256];
        printf("%10llu %5.1f%% %9llu x  %s", (unsigned long long)costs[i].cycles,
               100 * (double)costs[i].cycles / total, (unsigned long long)costs[i].times,
               profile_base_name(costs[i].file));
        if (costs[i].line)
            printf(":%d", costs[i].line);
        else
            printf(", code that belongs to no line");
        if (source_line(costs[i].file, costs[i].line, text, sizeof text))
            printf("  %s", text);
        printf("\n");
        print_instructions(p, &costs[i], total);
    }
    printf("\n");
}
