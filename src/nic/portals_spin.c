/* P4sPIN on the host's side: handler images, HPU memory, and entries with handlers. */
#include "nic/portals_private.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "hpu/image_store.h"

#define HPU_ALIGNMENT 64

int portals_hpu_limits(struct portals *p, ptl_handle_ni_t handle, ptl_hpu_limits_t *limits) {
    if (!p4_ni_of(p, handle) || !limits)
        return PTL_ARG_INVALID;
    *limits = p->config.hpu_limits;
    return PTL_OK;
}

/* ---- HPU memory ---- */

static uint64_t rounded(uint64_t length) {
    return (length + HPU_ALIGNMENT - 1) / HPU_ALIGNMENT * HPU_ALIGNMENT;
}

int portals_hpu_alloc(struct portals *p, ptl_handle_ni_t handle, ptl_size_t length,
                      ptl_hpu_md_h *out) {
    struct portals_ni *ni = p4_ni_of(p, handle);
    if (!ni || !out || !length)
        return PTL_ARG_INVALID;
    if (length > p->config.hpu_limits.max_handler_mem ||
        rounded(length) > p->config.hpu_memory_bytes - p->hpu_used)
        return PTL_NO_SPACE;
    struct portals_hpu_memory *h = pool_take(&ni->hpus);
    if (!h)
        return PTL_NO_SPACE;
    h->bytes = zone_take_lines(p->config.zone, rounded(length));
    if (!h->bytes) {
        pool_give(&ni->hpus, h);
        return PTL_NO_SPACE;
    }
    memset(h->bytes, 0, rounded(length));
    h->ni = ni;
    h->length = length;
    p->hpu_used += rounded(length);
    *out = p4_handle_new(ni, HANDLE_HPU, h);
    return PTL_OK;
}

static void hpu_release(struct portals_hpu_memory *h) {
    h->ni->p->hpu_used -= rounded(h->length);
    zone_give(h->ni->p->config.zone, h->bytes, rounded(h->length));
    p4_object_give(&h->ni->hpus, h);
}

int portals_hpu_free(struct portals *p, ptl_hpu_md_h handle) {
    struct portals_hpu_memory *h = p4_object_of(p, HANDLE_HPU, handle, NULL);
    if (!h)
        return PTL_ARG_INVALID;
    if (h->entries)
        return PTL_IN_USE;
    hpu_release(h);
    return PTL_OK;
}

void p4_spin_ni_clear(struct portals_ni *ni) {
    for (uint32_t i = 0; i < ni->hpus.made; i++) {
        struct portals_hpu_memory *h = pool_find(&ni->hpus, i);
        if (h)
            hpu_release(h);
    }
}

/* ---- Images ---- */

static void image_free(struct ptl_image *image) {
    struct image_store *shared = image->p->config.images;
    if (shared && image->image)
        image_store_release(shared, image->image);
    else
        spin_image_free(image->image);
    free(image->handler);
    free(image);
}

static int image_handlers(struct ptl_image *image, struct spin_error *err) {
    const struct spin_image_info *info = spin_image_info(image->image);
    image->handler = calloc(info->functions ? info->functions : 1, sizeof *image->handler);
    if (!image->handler)
        return spin_fail(err, SPIN_ENOMEM, "no memory for the handlers of %.300s", info->path);
    for (uint32_t i = 0; i < info->functions; i++)
        image->handler[i] = (struct ptl_handler){image, info->function[i].address};
    return SPIN_OK;
}

static void forget_error(struct portals *p) {
    free(p->image_error);
    p->image_error = NULL;
}

/* What the program may ask for. */
static int refused(struct portals *p, const struct spin_error *err) {
    p->image_error = strdup(err->text);
    return PTL_ARG_INVALID;
}

int portals_image_load(struct portals *p, ptl_handle_ni_t handle, const char *name,
                       const void *bytes, ptl_size_t length, ptl_image_h *out) {
    struct spin_error err = {0};
    forget_error(p);
    if (!p4_ni_of(p, handle) || !name || !out) {
        spin_fail(&err, SPIN_EARG,
                  "an image needs an interface, a name and a place for its handle");
        return refused(p, &err);
    }
    struct ptl_image *image = calloc(1, sizeof *image);
    if (!image)
        return PTL_NO_SPACE;
    image->p = p;
    int code = p->config.images ? image_store_load(p->config.images, name, bytes, length,
                                                   &p->image_limits, &image->image, &err)
               : bytes
                   ? spin_image_parse(&image->image, name, bytes, length, &p->image_limits, &err)
                   : spin_image_load(&image->image, name, &p->image_limits, &err);
    if (!code)
        code = image_handlers(image, &err);
    if (code) {
        image_free(image);
        int invalid = refused(p, &err);
        return code == SPIN_ENOMEM ? PTL_NO_SPACE : invalid;
    }
    image->next = p->images;
    p->images = image;
    *out = image;
    return PTL_OK;
}

static struct ptl_image **image_at(struct portals *p, const struct ptl_image *image) {
    struct ptl_image **at = &p->images;
    while (*at && *at != image)
        at = &(*at)->next;
    return at;
}

int portals_image_find(struct portals *p, ptl_image_h image, const char *name,
                       ptl_handler_t *handler) {
    const struct spin_function *function;
    struct spin_error err;
    forget_error(p);
    if (!*image_at(p, image) || !name || !handler) {
        spin_fail(&err, SPIN_EARG, "no such image is loaded");
        return refused(p, &err);
    }
    if (spin_image_find(image->image, name, &function, &err))
        return refused(p, &err);
    *handler = &image->handler[function - spin_image_info(image->image)->function];
    return PTL_OK;
}

int portals_image_unload(struct portals *p, ptl_image_h image) {
    struct ptl_image **at = image_at(p, image);
    if (!*at)
        return PTL_ARG_INVALID;
    if (image->entries)
        return PTL_IN_USE;
    *at = image->next;
    image_free(image);
    return PTL_OK;
}

const char *portals_image_error(const struct portals *p) {
    return p->image_error ? p->image_error : "";
}

/* ---- Entries ---- */

/* The image of a handler that a program gave, or NULL. */
static struct ptl_image *image_of(struct portals *p, ptl_handler_t handler) {
    for (struct ptl_image *i = p->images; i; i = i->next)
        if (handler >= i->handler && handler < i->handler + spin_image_info(i->image)->functions)
            return i;
    return NULL;
}

/* One handler of an entry; all of an entry's are of one image. */
static bool set_handler(struct portals_entry *e, ptl_handler_t handler, uint32_t *entry) {
    if (!handler)
        return true;
    struct ptl_image *image = image_of(e->ni->p, handler);
    if (!image || (e->image && e->image != image))
        return false;
    if (!e->image)
        image->entries++;
    e->image = image;
    *entry = handler->entry;
    return true;
}

static bool set_state(struct portals_entry *e, const ptl_me_t *me) {
    const ptl_hpu_limits_t *limits = &e->ni->p->config.hpu_limits;
    struct portals_ni *ni = NULL;
    if (me->hpu_memory == PTL_INVALID_HANDLE)
        return me->hpu_initial_state_length == 0;
    struct portals_hpu_memory *h = p4_object_of(e->ni->p, HANDLE_HPU, me->hpu_memory, &ni);
    if (!h || ni != e->ni || me->hpu_initial_state_length > limits->max_initial_state ||
        me->hpu_initial_state_length > h->length)
        return false;
    h->entries++;
    e->hpu = h;
    e->handlers.state = h->bytes;
    e->handlers.state_bytes = (uint32_t)h->length;
    if (me->hpu_initial_state)
        memcpy(h->bytes, me->hpu_initial_state, me->hpu_initial_state_length);
    return true;
}

/* These fields are there only with PTL_ME_CLEANUP. */
static bool set_cleanup(struct portals_entry *e, const ptl_me_t *me) {
    if (!(me->options & PTL_ME_CLEANUP))
        return true;
    e->handlers.cleanup_ns = me->cleanup_time;
    return me->cleanup_handler && me->cleanup_time &&
           set_handler(e, me->cleanup_handler, &e->handlers.cleanup);
}

int p4_spin_entry_set(struct portals_entry *e, const ptl_me_t *me) {
    struct portals_handlers *handlers = &e->handlers;
    bool any = me->header_handler || me->payload_handler || me->completion_handler ||
               me->options & PTL_ME_CLEANUP;
    if (any && !e->ni->p->config.hpu_limits.max_payload_size)
        return PTL_NO_SPACE; /* the card has no HPUs */
    if (me->user_hdr_length > e->ni->p->config.hpu_limits.max_user_hdr_size ||
        !set_handler(e, me->header_handler, &handlers->header) ||
        !set_handler(e, me->payload_handler, &handlers->payload) ||
        !set_handler(e, me->completion_handler, &handlers->completion) || !set_cleanup(e, me) ||
        !set_state(e, me))
        return PTL_ARG_INVALID;
    int code =
        p4_memory_set(&e->handler_memory, me->handler_host_mem_start, me->handler_host_mem_length,
                      me->options & PTL_ME_HANDLER_IOVEC, e->ni);
    if (code)
        return code;
    handlers->host_bytes = e->handler_memory.length;
    handlers->user_hdr_bytes = (uint32_t)me->user_hdr_length;
    handlers->image = e->image ? e->image->image : NULL;
    return PTL_OK;
}

void p4_spin_entry_clear(struct portals_entry *e) {
    p4_memory_clear(&e->handler_memory);
    if (e->hpu)
        e->hpu->entries--;
    if (e->image)
        e->image->entries--;
    e->hpu = NULL;
    e->image = NULL;
}
