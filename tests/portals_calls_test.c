/* The calls that set things up and wait for them: what each returns, and the limits. */
#include "lib/test_wire.h"

#include <limits.h>

#define MATCHING (PTL_NI_MATCHING | PTL_NI_PHYSICAL)

static ptl_handle_ni_t ni;

static struct wire *one(const ptl_ni_limits_t *limits) {
    return wire_with(MATCHING, limits, &ni);
}

static ptl_ni_limits_t limits_of(struct wire *w) {
    ptl_ni_limits_t limits;
    ptl_handle_ni_t again;
    (void)w;
    CHECK_OK(PtlNIInit(PTL_IFACE_DEFAULT, MATCHING, PTL_PID_ANY, NULL, &limits, &again));
    CHECK_EQ(again, ni);
    CHECK_OK(PtlNIFini(again));
    return limits;
}

/* As a program sees it whose portals4.h knows nothing of P4sPIN. */
int ni_init_41(ptl_interface_t iface, unsigned int options, ptl_pid_t pid,
               const ptl_ni_limits_t *desired, ptl_ni_limits_t *actual,
               ptl_handle_ni_t *ni_handle) __asm__("PtlNIInit");

TEST(limits_of_handlers_where_appendix_b_has_them) {
    struct wire *w = one(NULL);
    ptl_handle_ni_t again;
    ptl_ni_limits_t actual = limits_of(w), other;
    ptl_hpu_limits_t limits;
    enum { HANDLERS = offsetof(ptl_ni_limits_t, max_user_hdr_size) };
    memset(&other, 0x77, sizeof other);
    CHECK_OK(PtlHPULimits(ni, &limits));
    CHECK(limits.max_payload_size > 0 && limits.max_initial_state > 0);
    CHECK_EQ(sizeof limits, sizeof actual - HANDLERS);
    CHECK(memcmp((char *)&actual + HANDLERS, &limits, sizeof limits) == 0);
    CHECK_OK(ni_init_41(PTL_IFACE_DEFAULT, MATCHING, PTL_PID_ANY, NULL, &other, &again));
    CHECK_EQ(other.max_msg_size, actual.max_msg_size);
    CHECK_EQ(other.features, actual.features);
    for (size_t i = HANDLERS; i < sizeof other; i++)
        CHECK_EQ(((unsigned char *)&other)[i], 0x77);
    CHECK_OK(PtlNIFini(again));
    wire_free(w);
}

TEST(names_of_values) {
    CHECK_STR(PtlToStr(PTL_OK, PTL_STR_ERROR), "PTL_OK");
    CHECK_STR(PtlToStr(PTL_PT_IN_USE, PTL_STR_ERROR), "PTL_PT_IN_USE");
    CHECK_STR(PtlToStr(PTL_EVENT_GET, PTL_STR_EVENT), "PTL_EVENT_GET");
    CHECK_STR(PtlToStr(PTL_EVENT_SEARCH, PTL_STR_EVENT), "PTL_EVENT_SEARCH");
    CHECK_STR(PtlToStr(PTL_NI_SEGV, PTL_STR_FAIL_TYPE), "PTL_NI_SEGV");
    CHECK_STR(PtlToStr(PTL_NI_HANDLER_FAIL, PTL_STR_FAIL_TYPE), "PTL_NI_HANDLER_FAIL");
    CHECK_STR(PtlToStr(8, PTL_STR_FAIL_TYPE), "unknown");
    CHECK_STR(PtlToStr(-1, PTL_STR_ERROR), "unknown");
    CHECK_STR(PtlToStr(PTL_STATUS_LAST, PTL_STR_ERROR), "unknown");
    CHECK_STR(PtlToStr(0, (ptl_str_type_t)3), "unknown");
}

TEST(before_init_every_call_says_so) {
    struct wire *w = wire_new();
    ptl_process_t id = {.rank = 0};
    ptl_ct_event_t ct = {0};
    ptl_event_t ev;
    ptl_md_t md = {0};
    ptl_le_t le = {0};
    ptl_me_t me = {0};
    ptl_sr_value_t sr;
    ptl_uid_t uid;
    ptl_size_t size = 1;
    ptl_hpu_limits_t hpu;
    ptl_image_h image;
    ptl_handler_t handler;
    uint32_t h = 0;
    unsigned which;
    wire_as(w, 0);
    for (int round = 0; round < 3; round++) {
        /* never initialised; finalised again; no process at all */
        if (round == 1) {
            CHECK_OK(PtlInit());
            PtlFini();
        } else if (round == 2) {
            portals_enter(NULL);
            CHECK_EQ(PtlInit(), PTL_FAIL);
        }
#define NO(call) CHECK_EQ(call, PTL_NO_INIT)
        NO(PtlNIInit(PTL_IFACE_DEFAULT, MATCHING, PTL_PID_ANY, NULL, NULL, &h));
        NO(PtlNIFini(h));
        NO(PtlNIStatus(h, PTL_SR_DROP_COUNT, &sr));
        NO(PtlNIHandle(h, &h));
        NO(PtlSetMap(h, 1, &id));
        NO(PtlGetMap(h, 1, &id, &size));
        NO(PtlPTAlloc(h, 0, PTL_EQ_NONE, PTL_PT_ANY, &h));
        NO(PtlPTFree(h, 0));
        NO(PtlPTDisable(h, 0));
        NO(PtlPTEnable(h, 0));
        NO(PtlGetUid(h, &uid));
        NO(PtlGetId(h, &id));
        NO(PtlGetPhysId(h, &id));
        NO(PtlMDBind(h, &md, &h));
        NO(PtlMDRelease(h));
        NO(PtlLEAppend(h, 0, &le, PTL_PRIORITY_LIST, NULL, &h));
        NO(PtlLEUnlink(h));
        NO(PtlLESearch(h, 0, &le, PTL_SEARCH_ONLY, NULL));
        NO(PtlMEAppend(h, 0, &me, PTL_PRIORITY_LIST, NULL, &h));
        NO(PtlMEUnlink(h));
        NO(PtlMESearch(h, 0, &me, PTL_SEARCH_ONLY, NULL));
        NO(PtlEQAlloc(h, 1, &h));
        NO(PtlEQFree(h));
        NO(PtlEQGet(h, &ev));
        NO(PtlEQWait(h, &ev));
        NO(PtlEQPoll(&h, 1, 0, &ev, &which));
        NO(PtlCTAlloc(h, &h));
        NO(PtlCTFree(h));
        NO(PtlCTCancelTriggered(h));
        NO(PtlCTGet(h, &ct));
        NO(PtlCTWait(h, 0, &ct));
        NO(PtlCTPoll(&h, &size, 1, 0, &ct, &which));
        NO(PtlCTSet(h, ct));
        NO(PtlCTInc(h, ct));
        NO(PtlPut(h, 0, 0, 0, id, 0, 0, 0, NULL, 0));
        NO(PtlGet(h, 0, 0, id, 0, 0, 0, NULL));
        NO(PtlAtomic(h, 0, 0, 0, id, 0, 0, 0, NULL, 0, PTL_SUM, PTL_INT8_T));
        NO(PtlFetchAtomic(h, 0, h, 0, 0, id, 0, 0, 0, NULL, 0, PTL_SUM, PTL_INT8_T));
        NO(PtlSwap(h, 0, h, 0, 0, id, 0, 0, 0, NULL, 0, NULL, PTL_SWAP, PTL_INT8_T));
        NO(PtlAtomicSync());
        NO(PtlTriggeredPut(h, 0, 0, 0, id, 0, 0, 0, NULL, 0, h, 1));
        NO(PtlTriggeredGet(h, 0, 0, id, 0, 0, 0, NULL, h, 1));
        NO(PtlTriggeredAtomic(h, 0, 0, 0, id, 0, 0, 0, NULL, 0, PTL_SUM, PTL_INT8_T, h, 1));
        NO(PtlTriggeredFetchAtomic(h, 0, h, 0, 0, id, 0, 0, 0, NULL, 0, 0, 0, h, 1));
        NO(PtlTriggeredSwap(h, 0, h, 0, 0, id, 0, 0, 0, NULL, 0, NULL, PTL_SWAP, 0, h, 1));
        NO(PtlTriggeredCTInc(h, ct, h, 1));
        NO(PtlTriggeredCTSet(h, ct, h, 1));
        NO(PtlTriggeredMEAppend(h, 0, &me, PTL_PRIORITY_LIST, NULL, &h, h, 1));
        NO(PtlTriggeredMEUnlink(h, h, 1));
        NO(PtlStartBundle(h));
        NO(PtlEndBundle(h));
        CHECK(PtlHandleIsEqual(h, h)); /* the only call that needs none */
        NO(PtlHPULimits(h, &hpu));
        NO(PtlHPUAllocMem(64, h, &h));
        NO(PtlHPUFreeMem(&h));
        NO(PtlImageLoad(h, "x", &image));
        NO(PtlImageParse(h, "x", "", 0, &image));
        NO(PtlImageFind(NULL, "x", &handler));
        NO(PtlImageUnload(NULL));
#undef NO
    }
    wire_free(w);
}

TEST(init_is_counted) {
    struct wire *w = wire_new();
    wire_as(w, 0);
    CHECK_OK(PtlInit());
    CHECK_OK(PtlInit());
    CHECK_OK(PtlNIInit(PTL_IFACE_DEFAULT, MATCHING, PTL_PID_ANY, NULL, NULL, &ni));
    PtlFini();
    ptl_process_t id;
    CHECK_OK(PtlGetPhysId(ni, &id));
    PtlFini();
    CHECK_EQ(PtlGetPhysId(ni, &id), PTL_NO_INIT);
    PtlFini(); /* once too often harms nothing */
    CHECK_OK(PtlInit());
    CHECK_EQ(PtlGetPhysId(ni, &id), PTL_ARG_INVALID); /* the interface went with the last one */
    wire_free(w);
}

TEST(interfaces_and_their_arguments) {
    struct wire *w = wire_new();
    ptl_handle_ni_t handle, first[4];
    unsigned options[] = {PTL_NI_MATCHING | PTL_NI_LOGICAL, PTL_NI_NO_MATCHING | PTL_NI_LOGICAL,
                          PTL_NI_MATCHING | PTL_NI_PHYSICAL, PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL};
    for (uint32_t i = 0; i < WIRE_PROCESSES; i++) {
        wire_as(w, i);
        CHECK_OK(PtlInit());
#define BAD(iface, options, pid)                                                                   \
    CHECK_EQ(PtlNIInit(iface, options, pid, NULL, NULL, &handle), PTL_ARG_INVALID)
        BAD(3, MATCHING, PTL_PID_ANY);
        BAD(PTL_IFACE_DEFAULT, 0, PTL_PID_ANY);
        BAD(PTL_IFACE_DEFAULT, PTL_NI_MATCHING, PTL_PID_ANY);
        BAD(PTL_IFACE_DEFAULT, PTL_NI_LOGICAL, PTL_PID_ANY);
        BAD(PTL_IFACE_DEFAULT, MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY);
        BAD(PTL_IFACE_DEFAULT, MATCHING | PTL_NI_NO_MATCHING, PTL_PID_ANY);
        BAD(PTL_IFACE_DEFAULT, MATCHING | 0x10, PTL_PID_ANY);
        BAD(PTL_IFACE_DEFAULT, MATCHING, PTL_PID_MAX);
#undef BAD
        CHECK_EQ(PtlNIInit(PTL_IFACE_DEFAULT, MATCHING, PTL_PID_ANY, NULL, NULL, NULL),
                 PTL_ARG_INVALID);
        CHECK_EQ(PtlNIInit(PTL_IFACE_DEFAULT, MATCHING, WIRE_OTHER_PID(i), NULL, NULL, &handle),
                 PTL_PID_IN_USE);
        for (int k = 0; k < 4; k++) {
            CHECK_OK(PtlNIInit(PTL_IFACE_DEFAULT, options[k], k ? WIRE_PID(i) : PTL_PID_ANY, NULL,
                               NULL, &handle));
            /* launchers' keys hold the number: every process has the same */
            if (i == 0)
                first[k] = handle;
            CHECK_EQ(handle, first[k]);
            for (int j = 0; j < k; j++)
                CHECK(handle != first[j]);
        }
    }
    CHECK_EQ(PtlNIFini(0x12345), PTL_ARG_INVALID);
    CHECK_EQ(PtlNIFini(PTL_INVALID_HANDLE), PTL_ARG_INVALID);
    CHECK_OK(PtlNIFini(first[0]));
    CHECK_EQ(PtlNIFini(first[0]), PTL_ARG_INVALID);
    wire_free(w);
}

TEST(an_interface_is_counted_and_keeps_its_limits) {
    ptl_ni_limits_t asked = {.max_eqs = 3, .max_pt_index = 5, .max_msg_size = 1000}, actual;
    struct wire *w = one(&asked);
    ptl_handle_ni_t again;
    asked.max_eqs = 9;
    CHECK_OK(PtlNIInit(PTL_IFACE_DEFAULT, MATCHING, PTL_PID_ANY, &asked, &actual, &again));
    CHECK_EQ(again, ni);
    CHECK_EQ(actual.max_eqs, 3);
    CHECK_OK(PtlNIFini(ni));
    ptl_uid_t uid;
    CHECK_OK(PtlGetUid(ni, &uid));
    CHECK_OK(PtlNIFini(ni));
    CHECK_EQ(PtlGetUid(ni, &uid), PTL_ARG_INVALID);
    wire_free(w);
}

/* The table of docs/portals.md. */
static const struct {
    const char *variable;
    long long usual, least, most;
} limit_rows[] = {
    {"PTL_LIM_MAX_ENTRIES", 1024, 0, 128ll << 20},
    {"PTL_LIM_MAX_UNEXPECTED_HEADERS", 1024, 0, INT_MAX},
    {"PTL_LIM_MAX_MDS", 1024, 0, 128ll << 20},
    {"PTL_LIM_MAX_CTS", 1024, 0, 128ll << 20},
    {"PTL_LIM_MAX_EQS", 1024, 0, 128ll << 20},
    {"PTL_LIM_MAX_PT_INDEX", 63, 1, 511},
    {"PTL_LIM_MAX_IOVECS", 1024, 0, INT_MAX},
    {"PTL_LIM_MAX_LIST_SIZE", 1024, 0, INT_MAX},
    {"PTL_LIM_MAX_TRIGGERED_OPS", 1024, 0, INT_MAX},
    {"PTL_LIM_MAX_MSG_SIZE", 4ll << 30, 0, 4ll << 30},
    {"PTL_LIM_MAX_ATOMIC_SIZE", 512, 0, 512},
    {"PTL_LIM_MAX_FETCH_ATOMIC_SIZE", 512, 8, 512},
    {"PTL_LIM_MAX_WAW_ORDERED_SIZE", 8, 8, 64},
    {"PTL_LIM_MAX_WAR_ORDERED_SIZE", 8, 8, 64},
    {"PTL_LIM_MAX_VOLATILE_SIZE", 8, 0, 512},
    {"PTL_LIM_FEATURES", 0, 0, WIRE_FEATURES},
};
#define LIMIT_ROWS (sizeof limit_rows / sizeof *limit_rows)

static long long limit_field(const ptl_ni_limits_t *l, size_t i) {
    const int ints[] = {
        l->max_entries,      l->max_unexpected_headers, l->max_mds,    l->max_cts,
        l->max_eqs,          l->max_pt_index,           l->max_iovecs, l->max_list_size,
        l->max_triggered_ops};
    const ptl_size_t sizes[] = {l->max_msg_size,          l->max_atomic_size,
                                l->max_fetch_atomic_size, l->max_waw_ordered_size,
                                l->max_war_ordered_size,  l->max_volatile_size};
    return i < 9 ? ints[i] : i < 15 ? (long long)sizes[i - 9] : (long long)l->features;
}

TEST(limits_default_clamp_and_environment) {
    struct wire *w = one(NULL);
    ptl_ni_limits_t usual = limits_of(w);
    for (size_t i = 0; i < LIMIT_ROWS; i++)
        CHECK_EQ(limit_field(&usual, i), limit_rows[i].usual);
    wire_free(w);

    ptl_ni_limits_t asked;
    memset(&asked, 0x7f, sizeof asked); /* more than most */
    w = one(&asked);
    ptl_ni_limits_t most = limits_of(w);
    for (size_t i = 0; i < LIMIT_ROWS; i++) {
        long long wanted = limit_field(&asked, i);
        CHECK_EQ(limit_field(&most, i), wanted < limit_rows[i].most ? wanted : limit_rows[i].most);
    }
    wire_free(w);

    memset(&asked, 0xff, sizeof asked); /* negative numbers, and sizes beyond LONG_MAX */
    w = one(&asked);
    ptl_ni_limits_t odd = limits_of(w);
    for (size_t i = 0; i < LIMIT_ROWS; i++)
        CHECK_EQ(limit_field(&odd, i), i < 9 ? limit_rows[i].usual : limit_rows[i].most);
    wire_free(w);

    memset(&asked, 0, sizeof asked); /* programs that know only some limits leave the others 0 */
    asked.max_cts = 7;
    w = one(&asked);
    ptl_ni_limits_t filled = limits_of(w);
    for (size_t i = 0; i < LIMIT_ROWS; i++)
        CHECK_EQ(limit_field(&filled, i), i == 3 ? 7 : limit_rows[i].usual);
    wire_free(w);

    for (size_t i = 0; i < LIMIT_ROWS; i++) {
        setenv(limit_rows[i].variable, i == 15 ? "5" : "0x21", 1);
        w = one(NULL);
        ptl_ni_limits_t set = limits_of(w);
        for (size_t j = 0; j < LIMIT_ROWS; j++)
            CHECK_EQ(limit_field(&set, j), j != i ? limit_rows[j].usual : i == 15 ? 5 : 0x21);
        wire_free(w);
        setenv(limit_rows[i].variable, "-1000", 1);
        w = one(NULL);
        set = limits_of(w);
        CHECK_EQ(limit_field(&set, i), limit_rows[i].least);
        wire_free(w);
        unsetenv(limit_rows[i].variable);
    }
}

static const char *not_a_number(const char *name) {
    return strcmp(name, "PTL_LIM_MAX_CTS") == 0 ? "many" : NULL;
}

TEST(an_environment_variable_that_is_no_number_is_told) {
    ptl_ni_limits_t limits;
    struct spin_error err = {0};
    portals_limits_default(&limits, not_a_number, &err);
    CHECK_EQ(limits.max_cts, 1024);
    CHECK_HAS(err.text, "PTL_LIM_MAX_CTS: 'many' is not a whole number");
}

TEST(identity_and_maps) {
    struct wire *w = wire_new();
    ptl_handle_ni_t logical, physical;
    ptl_process_t id, map[3] = {wire_phys(2), wire_phys(0), wire_phys(1)}, back[5];
    ptl_size_t size;
    ptl_uid_t uid;
    wire_as(w, 0);
    CHECK_OK(PtlInit());
    CHECK_OK(PtlNIInit(0, PTL_NI_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, NULL, NULL, &logical));
    CHECK_OK(PtlNIInit(0, MATCHING, PTL_PID_ANY, NULL, NULL, &physical));
    CHECK_OK(PtlGetUid(logical, &uid));
    CHECK_EQ(uid, WIRE_UID(0));
    CHECK_EQ(PtlGetUid(logical, NULL), PTL_ARG_INVALID);
    CHECK_OK(PtlGetPhysId(logical, &id));
    CHECK_EQ(id.phys.nid, WIRE_NID(0));
    CHECK_EQ(id.phys.pid, WIRE_PID(0));
    CHECK_OK(PtlGetId(physical, &id));
    CHECK_EQ(id.phys.nid, WIRE_NID(0));
    CHECK_EQ(PtlGetId(logical, &id), PTL_ARG_INVALID); /* no map yet */
    CHECK_EQ(PtlGetMap(logical, 5, back, &size), PTL_NO_SPACE);
    CHECK_EQ(PtlSetMap(logical, 0, map), PTL_ARG_INVALID);
    CHECK_EQ(PtlSetMap(logical, 3, NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlSetMap(physical, 3, map), PTL_ARG_INVALID);
    CHECK_EQ(PtlGetMap(physical, 5, back, &size), PTL_ARG_INVALID);
    CHECK_OK(PtlSetMap(logical, 3, map));
    CHECK_EQ(PtlSetMap(logical, 3, map), PTL_IGNORED);
    CHECK_OK(PtlGetId(logical, &id));
    CHECK_EQ(id.rank, 1);
    CHECK_OK(PtlGetMap(logical, 5, back, &size));
    CHECK_EQ(size, 3);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(back[i].phys.nid, map[i].phys.nid);
    memset(back, 0, sizeof back);
    CHECK_OK(PtlGetMap(logical, 1, back, &size)); /* as many as there is room for */
    CHECK_EQ(size, 3);
    CHECK_EQ(back[0].phys.nid, WIRE_NID(2));
    CHECK_EQ(back[1].phys.nid, 0);
    CHECK_OK(PtlGetMap(logical, 0, NULL, &size));
    wire_free(w);
}

TEST(status_registers_handles_and_bundles) {
    struct wire *w = one(NULL);
    ptl_sr_value_t value = 99;
    ptl_handle_ni_t of;
    ptl_handle_eq_t eq;
    ptl_handle_ct_t ct;
    ptl_handle_md_t md;
    for (int i = 0; i < PTL_SR_LAST; i++) {
        CHECK_OK(PtlNIStatus(ni, (ptl_sr_index_t)i, &value));
        CHECK_EQ(value, 0);
    }
    CHECK_EQ(PtlNIStatus(ni, PTL_SR_LAST, &value), PTL_ARG_INVALID);
    CHECK_EQ(PtlNIStatus(ni, PTL_SR_DROP_COUNT, NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlNIStatus(77, PTL_SR_DROP_COUNT, &value), PTL_ARG_INVALID);
    CHECK_OK(PtlEQAlloc(ni, 1, &eq));
    CHECK_OK(PtlCTAlloc(ni, &ct));
    ptl_md_t desc = {NULL, 0, 0, PTL_EQ_NONE, PTL_CT_NONE};
    CHECK_OK(PtlMDBind(ni, &desc, &md));
    ptl_handle_any_t all[] = {ni, eq, ct, md};
    for (int i = 0; i < 4; i++) {
        CHECK_OK(PtlNIHandle(all[i], &of));
        CHECK_EQ(of, ni);
        CHECK(PtlHandleIsEqual(all[i], all[i]));
        for (int j = 0; j < i; j++)
            CHECK(!PtlHandleIsEqual(all[i], all[j]));
    }
    CHECK_EQ(PtlNIHandle(PTL_INVALID_HANDLE, &of), PTL_ARG_INVALID);
    CHECK_EQ(PtlNIHandle(PTL_EQ_NONE, &of), PTL_ARG_INVALID);
    CHECK_OK(PtlEQFree(eq));
    CHECK_EQ(PtlNIHandle(eq, &of), PTL_ARG_INVALID);
    CHECK_EQ(PtlEndBundle(ni), PTL_ARG_INVALID);
    CHECK_OK(PtlStartBundle(ni));
    CHECK_OK(PtlStartBundle(ni));
    CHECK_OK(PtlEndBundle(ni));
    CHECK_OK(PtlEndBundle(ni));
    CHECK_EQ(PtlEndBundle(ni), PTL_ARG_INVALID);
    CHECK_EQ(PtlStartBundle(99), PTL_ARG_INVALID);
    CHECK_OK(PtlAtomicSync());
    wire_free(w);
}

TEST(portal_table) {
    ptl_ni_limits_t limits = {
        .max_eqs = 4, .max_pt_index = 3, .max_entries = 4, .max_list_size = 4};
    struct wire *w = one(&limits);
    ptl_handle_eq_t eq;
    ptl_pt_index_t index;
    CHECK_OK(PtlEQAlloc(ni, 4, &eq));
    CHECK_EQ(PtlPTAlloc(ni, 0x10, eq, PTL_PT_ANY, &index), PTL_ARG_INVALID);
    CHECK_EQ(PtlPTAlloc(ni, 0, 12345, PTL_PT_ANY, &index), PTL_ARG_INVALID);
    CHECK_EQ(PtlPTAlloc(ni, 0, eq, 4, &index), PTL_ARG_INVALID);
    CHECK_EQ(PtlPTAlloc(ni, 0, eq, 0, NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlPTAlloc(ni, PTL_PT_FLOWCTRL, PTL_EQ_NONE, PTL_PT_ANY, &index), PTL_PT_EQ_NEEDED);
    CHECK_OK(PtlPTAlloc(ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &index));
    CHECK_EQ(index, 0); /* the first one */
    CHECK_OK(PtlPTAlloc(ni, PTL_PT_ALLOC_OPTIONS_MASK, eq, 2, &index));
    CHECK_EQ(index, 2);
    CHECK_EQ(PtlPTAlloc(ni, 0, eq, 2, &index), PTL_PT_IN_USE);
    CHECK_OK(PtlPTAlloc(ni, 0, eq, PTL_PT_ANY, &index));
    CHECK_EQ(index, 1);
    CHECK_OK(PtlPTAlloc(ni, 0, eq, PTL_PT_ANY, &index));
    CHECK_EQ(PtlPTAlloc(ni, 0, eq, PTL_PT_ANY, &index), PTL_PT_FULL);
    CHECK_EQ(PtlPTFree(ni, 4), PTL_ARG_INVALID);
    CHECK_OK(PtlPTFree(ni, 1));
    CHECK_EQ(PtlPTFree(ni, 1), PTL_ARG_INVALID);
    CHECK_EQ(PtlPTDisable(ni, 1), PTL_ARG_INVALID);
    CHECK_EQ(PtlPTEnable(ni, 1), PTL_ARG_INVALID);
    CHECK_OK(PtlPTDisable(ni, 2));
    CHECK_OK(PtlPTDisable(ni, 2));
    CHECK_OK(PtlPTEnable(ni, 2));
    CHECK_OK(PtlPTEnable(ni, 2));
    ptl_me_t me = {.ct_handle = PTL_CT_NONE, .uid = PTL_UID_ANY};
    ptl_handle_me_t handle;
    CHECK_OK(PtlMEAppend(ni, 2, &me, PTL_PRIORITY_LIST, NULL, &handle));
    CHECK_EQ(PtlPTFree(ni, 2), PTL_PT_IN_USE);
    CHECK_OK(PtlMEUnlink(handle));
    CHECK_OK(PtlPTFree(ni, 2));
    wire_free(w);
}

TEST(limits_are_enforced) {
    ptl_ni_limits_t limits = {.max_eqs = 2,
                              .max_cts = 2,
                              .max_mds = 2,
                              .max_entries = 3,
                              .max_list_size = 2,
                              .max_iovecs = 2,
                              .max_pt_index = 1,
                              .max_triggered_ops = 2,
                              .max_msg_size = 10,
                              .max_atomic_size = 8,
                              .max_fetch_atomic_size = 8};
    struct wire *w = one(&limits);
    uint32_t h[4];
    ptl_pt_index_t pt, pt2;
    char bytes[64];
    for (int i = 0; i < 3; i++)
        CHECK_EQ(PtlEQAlloc(ni, 1, &h[i]), i < 2 ? PTL_OK : PTL_NO_SPACE);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(PtlCTAlloc(ni, &h[i]), i < 2 ? PTL_OK : PTL_NO_SPACE);
    ptl_handle_ct_t ct = h[0];
    ptl_ct_event_t one_more = {1, 0};
    for (int i = 0; i < 3; i++)
        CHECK_EQ(PtlTriggeredCTInc(ct, one_more, ct, 10), i < 2 ? PTL_OK : PTL_NO_SPACE);
    CHECK_OK(PtlCTCancelTriggered(ct));
    CHECK_OK(PtlTriggeredCTInc(ct, one_more, ct, 10)); /* there is room again */
    ptl_md_t md = {bytes, sizeof bytes, 0, PTL_EQ_NONE, PTL_CT_NONE};
    for (int i = 0; i < 3; i++)
        CHECK_EQ(PtlMDBind(ni, &md, &h[i]), i < 2 ? PTL_OK : PTL_NO_SPACE);
    ptl_handle_md_t desc = h[0];
    CHECK_OK(PtlMDRelease(h[1]));
    ptl_iovec_t three[3] = {{bytes, 1}, {bytes, 1}, {bytes, 1}};
    md = (ptl_md_t){three, 3, PTL_IOVEC, PTL_EQ_NONE, PTL_CT_NONE};
    CHECK_EQ(PtlMDBind(ni, &md, &h[1]), PTL_ARG_INVALID);
    md.length = 2;
    CHECK_OK(PtlMDBind(ni, &md, &h[1]));
    CHECK_OK(PtlPTAlloc(ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &pt));
    CHECK_OK(PtlPTAlloc(ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &pt2));
    ptl_me_t me = {.ct_handle = PTL_CT_NONE, .uid = PTL_UID_ANY};
    for (int i = 0; i < 3; i++)
        CHECK_EQ(PtlMEAppend(ni, pt, &me, PTL_PRIORITY_LIST, NULL, &h[i]),
                 i < 2 ? PTL_OK : PTL_LIST_TOO_LONG);
    CHECK_OK(PtlMEAppend(ni, pt, &me, PTL_OVERFLOW_LIST, NULL, &h[2]));
    CHECK_EQ(PtlMEAppend(ni, pt2, &me, PTL_PRIORITY_LIST, NULL, &h[3]), PTL_NO_SPACE);
    CHECK_OK(PtlMEUnlink(h[2]));
    me.options = PTL_IOVEC;
    me.start = three;
    me.length = 3;
    CHECK_EQ(PtlMEAppend(ni, pt2, &me, PTL_PRIORITY_LIST, NULL, &h[3]), PTL_ARG_INVALID);
    CHECK_OK(PtlPut(desc, 0, 10, 0, wire_phys(1), 0, 0, 0, NULL, 0));
    CHECK_EQ(PtlPut(desc, 0, 11, 0, wire_phys(1), 0, 0, 0, NULL, 0), PTL_ARG_INVALID);
    CHECK_EQ(PtlGet(desc, 0, 11, wire_phys(1), 0, 0, 0, NULL), PTL_ARG_INVALID);
    CHECK_OK(PtlAtomic(desc, 0, 8, 0, wire_phys(1), 0, 0, 0, NULL, 0, PTL_SUM, PTL_INT8_T));
    CHECK_EQ(PtlAtomic(desc, 0, 9, 0, wire_phys(1), 0, 0, 0, NULL, 0, PTL_SUM, PTL_INT8_T),
             PTL_ARG_INVALID);
    CHECK_EQ(
        PtlFetchAtomic(desc, 0, desc, 0, 9, wire_phys(1), 0, 0, 0, NULL, 0, PTL_SUM, PTL_INT8_T),
        PTL_ARG_INVALID);
    wire_free(w);
}

TEST(descriptors) {
    struct wire *w = one(NULL);
    ptl_handle_eq_t eq;
    ptl_handle_ct_t ct;
    ptl_handle_md_t handle;
    ptl_handle_ni_t other;
    char bytes[100];
    CHECK_OK(PtlNIInit(0, PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL, NULL, &other));
    CHECK_OK(PtlEQAlloc(other, 4, &eq));
    CHECK_OK(PtlCTAlloc(other, &ct));
    ptl_md_t md = {bytes, sizeof bytes, 0, PTL_EQ_NONE, PTL_CT_NONE};
    CHECK_EQ(PtlMDBind(5, &md, &handle), PTL_ARG_INVALID);
    CHECK_EQ(PtlMDBind(ni, NULL, &handle), PTL_ARG_INVALID);
    CHECK_EQ(PtlMDBind(ni, &md, NULL), PTL_ARG_INVALID);
    md.options = 0x100;
    CHECK_EQ(PtlMDBind(ni, &md, &handle), PTL_ARG_INVALID);
    md.options = 0;
    md.eq_handle = eq; /* of another interface */
    CHECK_EQ(PtlMDBind(ni, &md, &handle), PTL_ARG_INVALID);
    md.eq_handle = PTL_EQ_NONE;
    md.ct_handle = ct;
    CHECK_EQ(PtlMDBind(ni, &md, &handle), PTL_ARG_INVALID);
    md.ct_handle = 4711;
    CHECK_EQ(PtlMDBind(ni, &md, &handle), PTL_ARG_INVALID);
    md.ct_handle = PTL_CT_NONE;
    CHECK_OK(PtlMDBind(ni, &md, &handle));
    /* beyond its end */
    CHECK_EQ(PtlPut(handle, 0, 101, 0, wire_phys(1), 0, 0, 0, NULL, 0), PTL_ARG_INVALID);
    CHECK_EQ(PtlPut(handle, 101, 0, 0, wire_phys(1), 0, 0, 0, NULL, 0), PTL_ARG_INVALID);
    CHECK_EQ(PtlPut(handle, UINT64_MAX, 2, 0, wire_phys(1), 0, 0, 0, NULL, 0), PTL_ARG_INVALID);
    CHECK_EQ(PtlPut(handle, 0, 1, 4, wire_phys(1), 0, 0, 0, NULL, 0), PTL_ARG_INVALID);
    CHECK_EQ(PtlGet(handle, 60, 41, wire_phys(1), 0, 0, 0, NULL), PTL_ARG_INVALID);
    ptl_process_t nobody = wire_phys(1);
    nobody.phys.pid = PTL_PID_ANY;
    CHECK_EQ(PtlPut(handle, 0, 1, 0, nobody, 0, 0, 0, NULL, 0), PTL_ARG_INVALID);
    CHECK_OK(PtlMDRelease(handle));
    CHECK_EQ(PtlMDRelease(handle), PTL_ARG_INVALID);
    CHECK_EQ(PtlPut(handle, 0, 1, 0, wire_phys(1), 0, 0, 0, NULL, 0), PTL_ARG_INVALID);
    /* all memory; registering it touches nothing */
    md = (ptl_md_t){NULL, PTL_SIZE_MAX, 0, PTL_EQ_NONE, PTL_CT_NONE};
    CHECK_OK(PtlMDBind(ni, &md, &handle));
    CHECK_OK(PtlPut(handle, (uintptr_t)bytes, 100, 0, wire_phys(1), 0, 0, 0, NULL, 0));
    if (WIRE_HOLDS)
        CHECK_EQ(PtlMDRelease(handle), PTL_IN_USE);
    wire_run(w);
    CHECK_OK(PtlMDRelease(handle));
    wire_free(w);
}

TEST(ranks_without_a_map_and_outside_of_it) {
    struct wire *w = wire_new();
    ptl_handle_md_t md;
    wire_as(w, 0);
    CHECK_OK(PtlInit());
    CHECK_OK(PtlNIInit(0, PTL_NI_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, NULL, NULL, &ni));
    ptl_md_t desc = {NULL, 0, 0, PTL_EQ_NONE, PTL_CT_NONE};
    CHECK_OK(PtlMDBind(ni, &desc, &md));
    CHECK_EQ(PtlPut(md, 0, 0, 0, wire_rank(0), 0, 0, 0, NULL, 0), PTL_ARG_INVALID);
    ptl_process_t map[2] = {wire_phys(0), wire_phys(1)};
    CHECK_OK(PtlSetMap(ni, 2, map));
    CHECK_OK(PtlPut(md, 0, 0, 0, wire_rank(1), 0, 0, 0, NULL, 0));
    CHECK_EQ(PtlPut(md, 0, 0, 0, wire_rank(2), 0, 0, 0, NULL, 0), PTL_ARG_INVALID);
    CHECK_EQ(PtlGet(md, 0, 0, wire_rank(PTL_RANK_ANY), 0, 0, 0, NULL), PTL_ARG_INVALID);
    wire_free(w);
}

TEST(appending_checks_its_arguments) {
    struct wire *w = one(NULL);
    ptl_handle_ni_t plain;
    ptl_pt_index_t pt, plain_pt;
    uint32_t h, ct;
    CHECK_OK(PtlNIInit(0, PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL, NULL, &plain));
    CHECK_OK(PtlPTAlloc(ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &pt));
    CHECK_OK(PtlPTAlloc(plain, 0, PTL_EQ_NONE, PTL_PT_ANY, &plain_pt));
    CHECK_OK(PtlCTAlloc(plain, &ct));
    ptl_me_t me = {.ct_handle = PTL_CT_NONE, .uid = PTL_UID_ANY};
    ptl_le_t le = {.ct_handle = PTL_CT_NONE, .uid = PTL_UID_ANY};
#define BAD(call) CHECK_EQ(call, PTL_ARG_INVALID)
    BAD(PtlMEAppend(plain, plain_pt, &me, PTL_PRIORITY_LIST, NULL, &h));
    BAD(PtlLEAppend(ni, pt, &le, PTL_PRIORITY_LIST, NULL, &h));
    BAD(PtlMEAppend(ni, 1, &me, PTL_PRIORITY_LIST, NULL, &h));
    BAD(PtlMEAppend(ni, 100000, &me, PTL_PRIORITY_LIST, NULL, &h));
    BAD(PtlMEAppend(ni, pt, NULL, PTL_PRIORITY_LIST, NULL, &h));
    BAD(PtlMEAppend(ni, pt, &me, 2, NULL, &h));
    BAD(PtlMEAppend(ni, pt, &me, PTL_PRIORITY_LIST, NULL, NULL));
    me.options = 0x80000; /* neither the standard's nor ours */
    BAD(PtlMEAppend(ni, pt, &me, PTL_PRIORITY_LIST, NULL, &h));
    me.options = 0;
    me.ct_handle = ct;
    BAD(PtlMEAppend(ni, pt, &me, PTL_PRIORITY_LIST, NULL, &h));
    BAD(PtlMESearch(ni, pt, &me, PTL_SEARCH_ONLY, NULL));
    me.ct_handle = PTL_CT_NONE;
    BAD(PtlMESearch(ni, pt, &me, 2, NULL));
    BAD(PtlMESearch(plain, plain_pt, &me, PTL_SEARCH_ONLY, NULL));
    BAD(PtlMESearch(ni, 1, &me, PTL_SEARCH_ONLY, NULL));
    le.options = PTL_ME_MANAGE_LOCAL;
    BAD(PtlLEAppend(plain, plain_pt, &le, PTL_PRIORITY_LIST, NULL, &h));
    le.options = 0;
    BAD(PtlLESearch(ni, pt, &le, PTL_SEARCH_ONLY, NULL));
    CHECK_OK(PtlLESearch(plain, plain_pt, &le, PTL_SEARCH_ONLY, NULL));
    CHECK_OK(PtlLEAppend(plain, plain_pt, &le, PTL_PRIORITY_LIST, NULL, &h));
    BAD(PtlMEUnlink(h));
    CHECK_OK(PtlLEUnlink(h));
    BAD(PtlLEUnlink(h));
    CHECK_OK(PtlMEAppend(ni, pt, &me, PTL_OVERFLOW_LIST, NULL, &h));
    BAD(PtlLEUnlink(h));
    CHECK_OK(PtlMEUnlink(h));
    BAD(PtlMEUnlink(h));
    BAD(PtlTriggeredMEUnlink(h, ct, 1));
#undef BAD
    wire_free(w);
}

STEP_TEST(queues_and_counters) {
    struct wire *w = one(NULL);
    ptl_handle_eq_t eq[2];
    ptl_handle_ct_t ct[2];
    ptl_event_t ev;
    ptl_ct_event_t count;
    unsigned which = 9;
    ptl_size_t tests[2] = {5, 5};
    CHECK_EQ(PtlEQAlloc(99, 1, &eq[0]), PTL_ARG_INVALID);
    CHECK_EQ(PtlEQAlloc(ni, 1, NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlEQAlloc(ni, 1ull << 50, &eq[0]), PTL_NO_SPACE);
    CHECK_OK(PtlEQAlloc(ni, 0, &eq[0]));
    CHECK_OK(PtlEQAlloc(ni, 2, &eq[1]));
    CHECK_EQ(PtlEQGet(eq[0], &ev), PTL_EQ_EMPTY);
    CHECK_EQ(PtlEQGet(eq[0], NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlEQGet(PTL_EQ_NONE, &ev), PTL_ARG_INVALID);
    CHECK_EQ(PtlEQWait(PTL_EQ_NONE, &ev), PTL_ARG_INVALID);
    CHECK_EQ(PtlEQWait(eq[0], NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlEQPoll(eq, 0, 0, &ev, &which), PTL_ARG_INVALID);
    CHECK_EQ(PtlEQPoll(NULL, 2, 0, &ev, &which), PTL_ARG_INVALID);
    CHECK_EQ(PtlEQPoll(eq, 2, 0, NULL, &which), PTL_ARG_INVALID);
    CHECK_EQ(PtlEQPoll(eq, 2, 0, &ev, NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlEQPoll(eq, 2, 0, &ev, &which), PTL_EQ_EMPTY);
    uint64_t start = w->now;
    CHECK_EQ(PtlEQPoll(eq, 2, 30, &ev, &which), PTL_EQ_EMPTY);
    CHECK_EQ(w->now - start, 30 * 1000); /* thirty milliseconds later */
    CHECK_OK(PtlEQFree(eq[1]));
    CHECK_EQ(PtlEQFree(eq[1]), PTL_ARG_INVALID);
    CHECK_EQ(PtlEQPoll(eq, 2, 0, &ev, &which), PTL_ARG_INVALID);

    CHECK_EQ(PtlCTAlloc(99, &ct[0]), PTL_ARG_INVALID);
    CHECK_EQ(PtlCTAlloc(ni, NULL), PTL_ARG_INVALID);
    CHECK_OK(PtlCTAlloc(ni, &ct[0]));
    CHECK_OK(PtlCTAlloc(ni, &ct[1]));
    CHECK_OK(PtlCTGet(ct[0], &count));
    CHECK_EQ(count.success + count.failure, 0);
    CHECK_OK(PtlCTSet(ct[0], (ptl_ct_event_t){4, 0}));
    CHECK_OK(PtlCTInc(ct[0], (ptl_ct_event_t){2, 0}));
    CHECK_OK(PtlCTGet(ct[0], &count));
    CHECK_EQ(count.success, 6);
    CHECK_OK(PtlCTWait(ct[0], 6, &count));
    CHECK_EQ(PtlCTGet(ct[0], NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlCTGet(PTL_CT_NONE, &count), PTL_ARG_INVALID);
    CHECK_EQ(PtlCTWait(PTL_CT_NONE, 1, &count), PTL_ARG_INVALID);
    CHECK_EQ(PtlCTSet(eq[0], count), PTL_ARG_INVALID);
    CHECK_EQ(PtlCTInc(eq[0], count), PTL_ARG_INVALID);
    CHECK_OK(PtlCTPoll(ct, tests, 2, PTL_TIME_FOREVER, &count, &which));
    CHECK_EQ(which, 0);
    CHECK_EQ(count.success, 6);
    /* Whose turn it is, each of five counters is looked at, and those that are reached take turns.
     */
    for (unsigned reached = 0; reached < 5; reached++)
        for (unsigned again = 0; again < 5; again++) {
            ptl_handle_ct_t many[5] = {ct[1], ct[1], ct[1], ct[1], ct[1]};
            const ptl_size_t each[5] = {6, 6, 6, 6, 6};
            many[reached] = ct[0];
            CHECK_OK(PtlCTPoll(many, each, 5, 0, &count, &which));
            CHECK_EQ(which, reached);
        }
    unsigned turns = 0;
    for (unsigned i = 0; i < 5; i++) {
        const ptl_handle_ct_t many[5] = {ct[0], ct[0], ct[0], ct[0], ct[0]};
        const ptl_size_t each[5] = {6, 6, 6, 6, 6};
        CHECK_OK(PtlCTPoll(many, each, 5, 0, &count, &which));
        turns |= 1u << which;
    }
    CHECK_EQ(turns, 31);
    tests[0] = 100;
    CHECK_EQ(PtlCTPoll(ct, tests, 2, 0, &count, &which), PTL_CT_NONE_REACHED);
    CHECK_EQ(PtlCTPoll(ct, NULL, 2, 0, &count, &which), PTL_ARG_INVALID);
    CHECK_EQ(PtlCTPoll(NULL, tests, 2, 0, &count, &which), PTL_ARG_INVALID);
    CHECK_EQ(PtlCTPoll(ct, tests, 0, 0, &count, &which), PTL_ARG_INVALID);
    CHECK_EQ(PtlCTPoll(ct, tests, 2, 0, NULL, &which), PTL_ARG_INVALID);
    CHECK_EQ(PtlCTPoll(ct, tests, 2, 0, &count, NULL), PTL_ARG_INVALID);
    start = w->now;
    CHECK_EQ(PtlCTPoll(ct, tests, 2, 7, &count, &which), PTL_CT_NONE_REACHED);
    CHECK_EQ(w->now - start, 7000);
    CHECK_OK(PtlCTInc(ct[1], (ptl_ct_event_t){0, 1})); /* a failure ends every wait */
    CHECK_OK(PtlCTPoll(ct, tests, 2, 7, &count, &which));
    CHECK_EQ(which, 1);
    CHECK_EQ(count.failure, 1);
    CHECK_OK(PtlCTWait(ct[1], 1000, &count));
    CHECK_OK(PtlCTFree(ct[1]));
    CHECK_EQ(PtlCTFree(ct[1]), PTL_ARG_INVALID);
    CHECK_EQ(PtlCTCancelTriggered(ct[1]), PTL_ARG_INVALID);
    wire_free(w);
}

/* A handle that was freed is never mistaken for the next object in its place. */
TEST(stale_handles) {
    struct wire *w = one(NULL);
    ptl_handle_ct_t before, now;
    ptl_ct_event_t count;
    CHECK_OK(PtlCTAlloc(ni, &before));
    for (int i = 0; i < 100000; i++) {
        CHECK_OK(PtlCTFree(before));
        CHECK_OK(PtlCTAlloc(ni, &now));
        CHECK(now != before);
        CHECK_EQ(PtlCTGet(before, &count), PTL_ARG_INVALID);
        CHECK(now != PTL_CT_NONE && now != PTL_INVALID_HANDLE);
        before = now;
    }
    wire_free(w);
}

/* An interface's may be 0, as a variable is that nobody has set: it names no object, whether there
 * is one in the first place of its kind, or was. */
TEST(the_handle_of_an_interface_is_that_of_no_object) {
    ptl_handle_ct_t ct;
    ptl_handle_me_t me;
    ptl_pt_index_t pt;
    struct wire *w = wire_with(PTL_NI_MATCHING | PTL_NI_LOGICAL, NULL, &ni);
    const ptl_me_t entry = {.ct_handle = PTL_CT_NONE, .uid = PTL_UID_ANY};
    CHECK_EQ(ni, 0);
    CHECK_OK(PtlPTAlloc(ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &pt));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(PtlCTAlloc(ni, &ct));
        CHECK_OK(PtlMEAppend(ni, pt, &entry, PTL_PRIORITY_LIST, NULL, &me));
        CHECK_EQ(PtlCTFree(ni), PTL_ARG_INVALID);
        CHECK_EQ(PtlMEUnlink(ni), PTL_ARG_INVALID);
        CHECK_OK(PtlCTFree(ct));
        CHECK_OK(PtlMEUnlink(me));
        CHECK_EQ(PtlCTFree(ni), PTL_ARG_INVALID);
        CHECK_EQ(PtlMEUnlink(ni), PTL_ARG_INVALID);
    }
    wire_free(w);
}

static ptl_handle_any_t to_free;

static void free_queue(struct wire *w) {
    (void)w;
    CHECK_OK(PtlEQFree(to_free));
}

static void free_counter(struct wire *w) {
    (void)w;
    CHECK_OK(PtlCTFree(to_free));
}

static void close_interface(struct wire *w) {
    (void)w;
    CHECK_OK(PtlNIFini(ni));
}

static void finish(struct wire *w) {
    (void)w;
    PtlFini();
}

STEP_TEST(waiting_is_interrupted_by_freeing) {
    void (*const ways[])(struct wire *) = {NULL, close_interface, finish};
    for (int i = 0; i < 3; i++)
        for (int poll = 0; poll < 2; poll++) {
            struct wire *w = one(NULL);
            ptl_event_t ev;
            ptl_ct_event_t count;
            ptl_size_t test = 1;
            unsigned which;
            CHECK_OK(PtlEQAlloc(ni, 4, &to_free));
            w->on_wait = ways[i] ? ways[i] : free_queue;
            CHECK_EQ(poll ? PtlEQPoll(&to_free, 1, 1000, &ev, &which) : PtlEQWait(to_free, &ev),
                     PTL_INTERRUPTED);
            wire_free(w);
            w = one(NULL);
            CHECK_OK(PtlCTAlloc(ni, &to_free));
            w->on_wait = ways[i] ? ways[i] : free_counter;
            CHECK_EQ(poll ? PtlCTPoll(&to_free, &test, 1, 1000, &count, &which)
                          : PtlCTWait(to_free, 1, &count),
                     PTL_INTERRUPTED);
            wire_free(w);
        }
}

TEST(every_call_has_its_name) {
    CHECK_STR(portals_call_name(PORTALS_NO_CALL), "no call");
    CHECK_STR(portals_call_name(PORTALS_CALL_PtlInit), "PtlInit");
    CHECK_STR(portals_call_name(PORTALS_CALL_PtlTriggeredMEUnlink), "PtlTriggeredMEUnlink");
    CHECK_STR(portals_call_name((enum portals_call)1000), "no call");
    CHECK_EQ(PORTALS_CALL_COUNT, 1 + 54 + 8);
}

STEP_TEST(calls_are_charged) {
    struct wire *w = one(NULL);
    uint64_t before = w->process[0].charged;
    ptl_uid_t uid;
    CHECK_OK(PtlGetUid(ni, &uid));
    CHECK_EQ(w->process[0].charged, before + 1);
    wire_free(w);
}

TEST_MAIN

/* What ends within its call holds nothing: events and counts are there when it returns, and the
 * descriptor may be released; small and large volatile data alike. */
STEP_TEST(puts_that_end_within_their_call) {
    struct wire *w = one(NULL);
    static uint8_t bytes[256];
    static const struct {
        enum portals_sending how;
        int code;
        uint8_t fail;
    } ways[] = {{PORTALS_LEFT, PTL_OK, PTL_NI_OK},
                {PORTALS_UNREADABLE, PTL_OK, PTL_NI_SEGV},
                {PORTALS_NO_MEMORY, PTL_NO_SPACE, 0}};
    ptl_handle_eq_t eq;
    ptl_handle_ct_t ct;
    CHECK_OK(PtlEQAlloc(ni, 8, &eq));
    CHECK_OK(PtlCTAlloc(ni, &ct));
    for (uint32_t i = 0; i < 6; i++) {
        ptl_md_t md = {.start = bytes,
                       .length = sizeof bytes,
                       .eq_handle = eq,
                       .ct_handle = ct,
                       .options = PTL_MD_VOLATILE | PTL_MD_EVENT_CT_SEND};
        ptl_handle_md_t handle;
        ptl_event_t event;
        ptl_ct_event_t count;
        ptl_size_t length = i / 3 ? 256 : 8;
        w->at_once = ways[i % 3].how;
        CHECK_OK(PtlMDBind(ni, &md, &handle));
        CHECK_OK(PtlCTSet(ct, (ptl_ct_event_t){0, 0}));
        uint64_t raised = w->process[0].raised;
        CHECK_EQ(PtlPut(handle, 0, length, PTL_NO_ACK_REQ, wire_phys(1), 0, 0, 0, bytes, 0),
                 ways[i % 3].code);
        CHECK_OK(PtlMDRelease(handle));
        CHECK_EQ(w->queued, 0);
        CHECK_OK(PtlCTGet(ct, &count));
        CHECK_EQ(count.success, ways[i % 3].how == PORTALS_LEFT);
        CHECK_EQ(count.failure, ways[i % 3].how == PORTALS_UNREADABLE);
        CHECK_EQ(w->process[0].raised, raised + !ways[i % 3].code);
        if (!ways[i % 3].code) {
            CHECK_OK(PtlEQGet(eq, &event));
            CHECK_EQ(event.type, PTL_EVENT_SEND);
            CHECK_EQ(event.ni_fail_type, ways[i % 3].fail);
            CHECK_EQ(event.mlength, length);
            CHECK(event.user_ptr == bytes);
        }
        CHECK_EQ(PtlEQGet(eq, &event), PTL_EQ_EMPTY);
    }
    wire_free(w);
}

/* The ring behind a queue grows while it is used: events stay in order, and only what is beyond the
 * places that were asked for is lost, the oldest first. */
STEP_TEST(queues_grow_to_what_was_asked_for) {
    struct wire *w = one(NULL);
    ptl_handle_eq_t eq;
    ptl_handle_md_t md;
    ptl_event_t event;
    w->at_once = PORTALS_LEFT;
    CHECK_OK(PtlEQAlloc(ni, 21, &eq));
    ptl_md_t of = {.eq_handle = eq, .ct_handle = PTL_CT_NONE};
    CHECK_OK(PtlMDBind(ni, &of, &md));
    uintptr_t put = 0, taken = 0;
    for (uint32_t round = 0; round < 40; round++) {
        for (uint32_t i = 0; i < 1 + round; i++)
            CHECK_OK(PtlPut(md, 0, 0, PTL_NO_ACK_REQ, wire_phys(1), 0, 0, 0, (void *)++put, 0));
        bool dropped = put - taken > 21;
        taken = dropped ? put - 21 : taken;
        for (uint32_t i = 0; taken < put && i < 1 + round; i++) {
            CHECK_EQ(PtlEQGet(eq, &event), dropped ? PTL_EQ_DROPPED : PTL_OK);
            dropped = false;
            CHECK_EQ((uintptr_t)event.user_ptr, ++taken);
        }
    }
    CHECK_EQ(PtlEQGet(eq, &event), PTL_EQ_EMPTY);
    wire_free(w);
}
