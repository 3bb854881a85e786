/* DFS building blocks, figure 4: memory on the card for writes that are under way at a time, and by
 * Little's law how many that are when writes of one size come at line rate. */
#include "figures.h"

#include "dfs22/dfs22_world.h"
#include "rate.h"
#include "storage/storage_state.h"

enum { SIZES = 10, STEPS = 18 }; /* 1 to 512 KiB; up to 128 K writes */
#define CARD_BYTES (6u << 20)    /* for descriptors, as the paper has it */

static void memory(struct sheet *s) {
    struct sheet_panel *p = sheet_panel(s, "memory", "Card memory over writes under way");
    p->log_x = p->log_y = true;
    p->every = 2;
    sheet_column(p, "", 0, "writes");
    sheet_column(p, "KiB", 1, "descriptors of %u B", (unsigned)sizeof(struct storage_descriptor));
    sheet_column(p, "KiB", 0, "memory of the card");
    for (int i = 0; i < STEPS; i++) {
        struct sheet_row *row = sheet_row(s, p, NULL);
        row->value[0] = 1u << i;
        row->value[1] = row->value[0] * sizeof(struct storage_descriptor) / 1024;
        row->value[2] = CARD_BYTES / 1024;
    }
}

/* A write stays for as long as its client waits for the answer: the worst case, for a card knows of
 * it later. */
static int under_way(const struct experiment_context *context, struct sheet *s, double *most,
                     struct spin_error *err) {
    struct sheet_panel *p = sheet_panel(s, "writes", "Writes of one size at line rate");
    p->log_x = p->log_y = true;
    sheet_column(p, "B", 0, "write");
    sheet_column(p, "us", 3, "time of a write");
    sheet_column(p, "", 1, "under way");
    sheet_column(p, "KiB", 2, "memory");
    uint32_t copies = dfs_copies(context, 4);
    sheet_column(p, "us", 3, "time, k = %u Ring", copies);
    sheet_column(p, "", 1, "under way, k = %u Ring", copies);
    sheet_column(p, "KiB", 2, "memory, k = %u Ring", copies);
    *most = 0;
    for (int z = 0; z < (context->setup.bytes ? 1 : SIZES); z++) {
        struct sheet_row *row = sheet_row(s, p, NULL);
        row->value[0] = context->setup.bytes ? (double)context->setup.bytes : 1024u << z;
        for (int i = 0; i < 2; i++) {
            const struct dfs_write write = {.protocol = DFS_SPIN_RING,
                                            .copies = i ? copies : 1,
                                            .bytes = (uint32_t)row->value[0]};
            struct dfs_outcome o;
            int code = dfs_write(context, &write, &o, err);
            if (code)
                return code;
            double *at = &row->value[1 + 3 * i];
            at[0] = o.us;
            at[1] = rate_buffer_bytes(DFS_GBIT, 1000 * o.us) / row->value[0];
            at[2] = at[1] * sizeof(struct storage_descriptor) / 1024;
            *most = at[2] > *most ? at[2] : *most;
        }
    }
    return SPIN_OK;
}

int dfs22_fig4(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    double most;
    int code = dfs_check_copies(context, err);
    memory(s);
    if (!code)
        code = under_way(context, s, &most, err);
    if (code || experiment_one_row(context))
        return code;
    struct sheet_claim *c =
        sheet_claim(s, "C2", "B", sizeof(struct storage_descriptor), 77, "descriptor of a write");
    sheet_because(c, "the places of other nodes are not kept: streams to the children are begun "
                     "with the first packet; a power of two is found by a shift");
    c = sheet_claim(s, "C2", "", CARD_BYTES / sizeof(struct storage_descriptor), 82000,
                    "writes at a time in 6 MiB");
    sheet_because(c, "6 MiB over the size of a descriptor");
    sheet_shape(s, "C2", most * 1024 < CARD_BYTES,
                "at line rate descriptors fit into the card, whatever the write size");
    sheet_note(s,
               "Little's law: writes under way = line rate / size x time of a write, measured on "
               "idle nodes (dfs22/fig6, fig9). Short writes need most memory: at most %.1f KiB "
               "here; handlers that do not keep up would add to it.",
               most);
    dfs_note_world(s, 400);
    return SPIN_OK;
}
