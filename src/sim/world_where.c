/* Where in its source a program is: function, file and line of an address, from the DWARF of the
 * object that holds it; without DWARF, from its symbols. */
#include <dlfcn.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/world_private.h"

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The innermost function, inlined or not. */
static const char *function_at(Dwarf_Die *unit, Dwarf_Addr address, char *text, size_t room) {
    Dwarf_Die *scopes = NULL;
    int count = dwarf_getscopes(unit, address, &scopes);
    for (int i = 0; i < count; i++) {
        int tag = dwarf_tag(&scopes[i]);
        Dwarf_Attribute attribute;
        const char *name = NULL;
        if (tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine)
            name = dwarf_formstring(dwarf_attr_integrate(&scopes[i], DW_AT_name, &attribute));
        if (name) {
            snprintf(text, room, "%s", name);
            break;
        }
    }
    free(scopes);
    return text;
}

/* "watch (ring.c:17)"; false: the file says nothing of the address. */
static bool from_dwarf(const char *path, Dwarf_Addr address, char *text, size_t room) {
    int file = open(path, O_RDONLY | O_CLOEXEC), line = 0;
    Dwarf *dwarf = file >= 0 ? dwarf_begin(file, DWARF_C_READ) : NULL;
    bool found = false;
    size_t header;
    for (Dwarf_Off at = 0, next;
         dwarf && !found && dwarf_nextcu(dwarf, at, &next, &header, NULL, NULL, NULL) == 0;
         at = next) {
        Dwarf_Die unit;
        char function[128] = "a function";
        if (next <= at)
            break;
        if (!dwarf_offdie(dwarf, at + header, &unit) || dwarf_haspc(&unit, address) <= 0)
            continue;
        Dwarf_Line *row = dwarf_getsrc_die(&unit, address);
        const char *source = row ? dwarf_linesrc(row, NULL, NULL) : NULL;
        if (!source || dwarf_lineno(row, &line) != 0)
            break;
        found = true;
        snprintf(text, room, "%s (%s:%d)", function_at(&unit, address, function, sizeof function),
                 last_part(source), line);
    }
    dwarf_end(dwarf);
    if (file >= 0)
        close(file);
    return found;
}

bool world_where(const struct spin_world *w, const void *address, char *text, size_t room) {
    const char *path, *function;
    uint64_t offset;
    if (!world_program_where(w, address, &path, &offset, &function)) {
        Dl_info info;
        if (!dladdr(address, &info)) {
            snprintf(text, room, "code at %p", address);
            return false;
        }
        path = info.dli_fname;
        offset = (uintptr_t)address - (uintptr_t)info.dli_fbase;
        function = info.dli_sname ? info.dli_sname : "";
    }
    if (from_dwarf(path, offset, text, room))
        return true;
    if (*function)
        snprintf(text, room, "%s (no line: compile with -g)", function);
    else
        snprintf(text, room, "%s at 0x%llx (no line: compile with -g)", last_part(path),
                 (unsigned long long)offset);
    return false;
}
