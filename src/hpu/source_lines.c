/* Source lines of addresses, from the image's DWARF, through elfutils. */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/search.h"
#include "hpu/image.h"

struct line_row {
    uint32_t address;
    int line; /* 0: from here on nothing is known */
    const char *file;
};

/* One sorted table, so that a look-up is a binary search and outlives nothing but the image. */
struct image_lines {
    Elf *elf;
    Dwarf *dwarf; /* keeps the file names */
    struct line_row *row;
    size_t count;
};

static int by_address(const void *a, const void *b) {
    const struct line_row *p = a, *q = b;
    if (p->address != q->address)
        return p->address < q->address ? -1 : 1;
    return (q->line == 0) -
           (p->line == 0); /* the end of one sequence before the start of another */
}

static bool add_unit(struct image_lines *t, struct spin_image *im, Dwarf_Die *unit, size_t *room) {
    Dwarf_Lines *lines;
    const char *last = NULL, *file = NULL;
    size_t count;
    if (dwarf_getsrclines(unit, &lines, &count) != 0)
        return true; /* a unit without lines */
    for (size_t i = 0; i < count; i++) {
        Dwarf_Line *l = dwarf_onesrcline(lines, i);
        Dwarf_Addr address;
        bool end;
        int number;
        if (!l || dwarf_lineaddr(l, &address) != 0 || dwarf_lineendsequence(l, &end) != 0 ||
            dwarf_lineno(l, &number) != 0)
            continue;
        if (!ROOM_FOR_ONE(t->row, t->count, *room, 256))
            return false;
        const char *source = dwarf_linesrc(l, NULL, NULL);
        if (source != last) { /* one copy of a name that is not shown as it is */
            last = source;
            file = source ? image_name(im, source) : NULL;
        }
        t->row[t->count++] =
            (struct line_row){.address = (uint32_t)address, .line = end ? 0 : number, .file = file};
    }
    return true;
}

static struct image_lines *make(struct spin_image *im) {
    struct image_lines *t = calloc(1, sizeof *t);
    if (!t || elf_version(EV_CURRENT) == EV_NONE)
        return t;
    t->elf = elf_memory((char *)im->file, im->file_bytes);
    t->dwarf = t->elf ? dwarf_begin_elf(t->elf, DWARF_C_READ, NULL) : NULL;
    if (!t->dwarf)
        return t;
    size_t room = 0, header;
    for (Dwarf_Off at = 0, next; dwarf_nextcu(t->dwarf, at, &next, &header, NULL, NULL, NULL) == 0;
         at = next) {
        Dwarf_Die unit;
        if (dwarf_offdie(t->dwarf, at + header, &unit) && !add_unit(t, im, &unit, &room))
            break;
        if (next <= at)
            break;
    }
    if (t->count)
        qsort(t->row, t->count, sizeof *t->row, by_address);
    return t;
}

bool image_lines_find(struct spin_image *im, uint32_t address, const char **file, int *line) {
    if (!im->lines_tried) {
        im->lines_tried = true;
        im->lines = im->info.has_lines ? make(im) : NULL;
    }
    const struct image_lines *t = im->lines;
    if (!t || !t->count || address < t->row[0].address)
        return false;
    const struct line_row *last =
        &t->row[COUNT_BEFORE(i, t->count, t->row[i].address <= address) - 1];
    if (last->line == 0 || !last->file)
        return false;
    *file = last->file;
    *line = last->line;
    return true;
}

/* ---- inlined calls ----------------------------------------------------------------------------
 */

#define MOST_NESTED  32      /* functions inlined into each other */
#define MOST_ENTRIES 1000000 /* of DWARF that a look-up reads: the file may be anything */

struct nest {
    Dwarf_Addr pc;
    Dwarf_Die inlined[MOST_NESTED]; /* the innermost last */
    int depth, entries;
};

/* The inlined functions that hold the address, below `die`. */
static void descend(struct nest *n, Dwarf_Die *die, int level) {
    Dwarf_Die child;
    if (level == MOST_NESTED || dwarf_child(die, &child) != 0)
        return;
    do {
        int tag = dwarf_tag(&child);
        if (n->entries++ >= MOST_ENTRIES)
            return;
        if (tag != DW_TAG_subprogram && tag != DW_TAG_inlined_subroutine &&
            tag != DW_TAG_lexical_block)
            continue;
        if (dwarf_haspc(&child, n->pc) <= 0)
            continue;
        if (tag == DW_TAG_inlined_subroutine && n->depth < MOST_NESTED)
            n->inlined[n->depth++] = child;
        descend(n, &child, level + 1);
        return;
    } while (dwarf_siblingof(&child, &child) == 0);
}

static const char *name_of(Dwarf_Die *die) {
    Dwarf_Attribute name;
    return dwarf_formstring(dwarf_attr_integrate(die, DW_AT_name, &name));
}

/* Where an inlined function was called. */
static bool call_site(Dwarf_Die *unit, Dwarf_Die *die, const char **file, int *line) {
    Dwarf_Attribute attribute;
    Dwarf_Word number, at;
    Dwarf_Files *files;
    size_t count;
    if (dwarf_formudata(dwarf_attr(die, DW_AT_call_file, &attribute), &number) != 0 ||
        dwarf_formudata(dwarf_attr(die, DW_AT_call_line, &attribute), &at) != 0 ||
        dwarf_getsrcfiles(unit, &files, &count) != 0 || number >= count || at > INT32_MAX)
        return false;
    *file = dwarf_filesrc(files, number, NULL, NULL);
    *line = (int)at;
    return *file != NULL;
}

/* Headers that openspin installs: include/spin/ of its share. */
static bool is_ours(const char *file) {
    const char *at = strstr(file, "include/spin/"), *dot = strrchr(file, '.');
    return at && dot && strcmp(dot, ".h") == 0;
}

bool image_lines_caller(struct spin_image *im, uint32_t address, const char **file, int *line,
                        const char **call) {
    *call = NULL;
    if (!image_lines_find(im, address, file, line))
        return false;
    if (!is_ours(*file))
        return true;
    Dwarf *dwarf = im->lines->dwarf;
    size_t header;
    for (Dwarf_Off at = 0, next; dwarf_nextcu(dwarf, at, &next, &header, NULL, NULL, NULL) == 0;
         at = next) {
        Dwarf_Die unit;
        struct nest nest = {.pc = address};
        if (next <= at)
            break;
        if (!dwarf_offdie(dwarf, at + header, &unit) || dwarf_haspc(&unit, address) <= 0)
            continue;
        descend(&nest, &unit, 0);
        while (nest.depth && is_ours(*file)) {
            Dwarf_Die *inner = &nest.inlined[--nest.depth];
            if (!call_site(&unit, inner, file, line))
                break;
            *call = name_of(inner);
        }
        break;
    }
    *file = image_name(im, *file);
    *call = *call ? image_name(im, *call) : NULL;
    return *file != NULL;
}

void image_lines_free(struct image_lines *t) {
    if (!t)
        return;
    if (t->dwarf)
        dwarf_end(t->dwarf);
    if (t->elf)
        elf_end(t->elf);
    free(t->row);
    free(t);
}
