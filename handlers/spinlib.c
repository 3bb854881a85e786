#include "spinlib/spinlib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Use cases that leave matching to the card have an entry per receive, and a header per message
 * that came before its receive. What is not used costs nothing; limits that are 0 are the default
 * ones.
 */
static const ptl_ni_limits_t limits = {
    .max_entries = 1 << 16, .max_list_size = 1 << 16, .max_unexpected_headers = 1 << 20};

int spin_job_open(struct spin_job *job) {
    *job = (struct spin_job){.ni = PTL_INVALID_HANDLE};
    int code = PtlInit();
    if (code != PTL_OK)
        return code;
    code = PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, &limits,
                     NULL, &job->ni);
    if (code == PTL_OK)
        code = spin_map_ranks(job->ni);
    if (code != PTL_OK) {
        PtlFini();
        return code;
    }
    job->rank = spin_rank();
    job->ranks = spin_ranks();
    return PTL_OK;
}

void spin_job_close(struct spin_job *job) {
    PtlNIFini(job->ni);
    PtlFini();
}

int spin_handlers_load(ptl_handle_ni_t ni, const char *name, ptl_image_h *image) {
    const char *folder = getenv("OPENSPIN_HANDLERS");
    if (!folder || !*folder)
        folder = SPINLIB_IMAGES;
    char *path = malloc(strlen(folder) + strlen(name) + sizeof "/.spin");
    if (!path)
        return PTL_NO_SPACE;
    stpcpy(stpcpy(stpcpy(stpcpy(path, folder), "/"), name), ".spin");
    ptl_handler_t stamp;
    int code = PtlImageLoad(ni, path, image);
    /* Handlers of another build would take memory for what it is not. */
    if (code == PTL_OK && PtlImageFind(*image, SPINLIB_STAMP, &stamp) != PTL_OK) {
        fprintf(stderr,
                "spinlib: %s is of another build than this library; install both again, or set "
                "OPENSPIN_HANDLERS to the folder of this build's images\n",
                path);
        PtlImageUnload(*image);
        code = PTL_ARG_INVALID;
    }
    free(path);
    return code;
}

static int find(const struct spin_entry *e, const char *name, ptl_handler_t *handler) {
    *handler = NULL;
    return name ? PtlImageFind(e->image, name, handler) : PTL_OK;
}

static int add_handlers(ptl_handle_ni_t ni, const struct spin_entry *e, ptl_me_t *me) {
    me->options |= PTL_ME_HANDLERS;
    me->hpu_memory = e->memory ? e->memory : PTL_INVALID_HANDLE;
    me->hpu_initial_state = (void *)(uintptr_t)e->state;
    me->hpu_initial_state_length = e->state_bytes;
    me->handler_host_mem_start = e->handler_memory;
    me->handler_host_mem_length = e->handler_memory_bytes;
    me->user_hdr_length = e->user_hdr_bytes;
    me->cleanup_time = e->cleanup_ns;
    uint32_t memory = e->memory_bytes ? e->memory_bytes : e->state_bytes;
    int code = find(e, e->header, &me->header_handler);
    if (code == PTL_OK)
        code = find(e, e->payload, &me->payload_handler);
    if (code == PTL_OK)
        code = find(e, e->completion, &me->completion_handler);
    if (code == PTL_OK && e->cleanup) {
        me->options |= PTL_ME_CLEANUP;
        code = find(e, e->cleanup, &me->cleanup_handler);
    }
    if (code == PTL_OK && !e->memory && memory)
        code = PtlHPUAllocMem(memory, ni, &me->hpu_memory);
    return code;
}

int spin_entry_append(ptl_handle_ni_t ni, ptl_pt_index_t pt, const struct spin_entry *e,
                      struct spin_linked *linked) {
    ptl_me_t me = {
        .start = e->start,
        .length = e->length,
        .ct_handle = e->ct ? e->ct : PTL_CT_NONE,
        .uid = PTL_UID_ANY,
        .options = e->options | PTL_ME_EVENT_LINK_DISABLE,
        .match_id = {.rank = e->from_self ? spin_rank() : PTL_RANK_ANY},
        .match_bits = e->bits,
        .ignore_bits = e->ignore,
        .min_free = e->min_free,
        .hpu_memory = PTL_INVALID_HANDLE,
    };
    int code = PTL_OK;
    if (e->header || e->payload || e->completion || e->cleanup)
        code = add_handlers(ni, e, &me);
    if (code == PTL_OK)
        code = PtlMEAppend(ni, pt, &me, PTL_PRIORITY_LIST, e->user_ptr, &linked->me);
    linked->memory = e->memory ? PTL_INVALID_HANDLE : me.hpu_memory;
    if (code != PTL_OK) {
        if (linked->memory != PTL_INVALID_HANDLE)
            PtlHPUFreeMem(&linked->memory);
        *linked = (struct spin_linked){0};
    }
    return code;
}

void spin_entry_remove(struct spin_linked *linked) {
    if (!linked->me)
        return;
    while (PtlMEUnlink(linked->me) == PTL_IN_USE)
        ;
    if (linked->memory != PTL_INVALID_HANDLE)
        PtlHPUFreeMem(&linked->memory);
    *linked = (struct spin_linked){0};
}
