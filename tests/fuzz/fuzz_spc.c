/* libFuzzer target: the reader of SPC block traces. What it takes is printed, and read back as the
 * same; what it refuses it refuses with one line that names a line of the text. */
#include "fuzz.h"
#include "spinlib/spc.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    struct spin_spc_trace trace, again;
    char error[200] = "", *text = NULL;
    size_t written = 0;
    if (!spin_spc_parse((const char *)bytes, length, 0, &trace, error, sizeof error)) {
        FUZZ_HOLDS(strncmp(error, "line ", 5) == 0, "an error names its line");
        for (const char *c = error; *c; c++)
            FUZZ_HOLDS(*c >= ' ' && *c <= '~', "an error is one line of text");
        FUZZ_HOLDS(!trace.record && !trace.records, "what is refused is empty");
        return 0;
    }
    FILE *out = open_memstream(&text, &written);
    spin_spc_print(&trace, out);
    fclose(out);
    FUZZ_HOLDS(spin_spc_parse(text, written, 0, &again, error, sizeof error), "it is read back");
    FUZZ_HOLDS(again.records == trace.records, "all of it");
    for (uint64_t i = 0; i < trace.records; i++) {
        const struct spin_spc_record *a = &trace.record[i], *b = &again.record[i];
        FUZZ_HOLDS(a->asu == b->asu && a->lba == b->lba && a->bytes == b->bytes &&
                       a->is_write == b->is_write,
                   "a request is the same");
    }
    spin_spc_statistics(&trace);
    spin_spc_free(&trace);
    spin_spc_free(&again);
    free(text);
    return 0;
}
