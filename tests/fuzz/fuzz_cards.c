/* libFuzzer target: a file of cards. Whatever bytes come, it is read or refused with one line that
 * names file and line; every rank has a card, and what is reported of some ranks is read back. */
#include "fuzz.h"

#include "base/text.h"
#include "sim/world_cards.h"

#define RANKS 12u

static int read_cards(struct world_cards *c, const char *text, struct spin_error *err) {
    struct world_params usual;
    char *copy = strdup(text);
    FUZZ_CHECK(copy && !world_params_preset(&usual, "sc17-int", err) &&
               !world_cards_new(c, RANKS, &usual, err));
    int code = world_cards_text(c, "fuzz", copy, err);
    free(copy);
    return code;
}

static void check_members(const struct world_cards *c) {
    uint32_t members[RANKS] = {0};
    FUZZ_HOLDS(c->count <= RANKS, "at most a card per rank");
    for (uint32_t r = 0; r < RANKS; r++) {
        FUZZ_HOLDS(c->of[r] < c->count, "every rank has a card");
        members[c->of[r]]++;
    }
    for (uint32_t i = 0; i < c->count; i++)
        FUZZ_HOLDS(c->card[i]->members == members[i] && members[i], "members are counted");
}

/* What --parameters would print is taken by --set. */
static void check_rows(const struct world_cards *c) {
    struct spin_parameter row;
    struct world_cards again;
    struct spin_error err;
    FUZZ_CHECK(!read_cards(&again, "", &err));
    for (int i = 0; i < 50 && world_cards_row(c, "sc17-int", i, &row); i++) {
        char line[800], *set;
        snprintf(line, sizeof line, "%s = %s, %s", row.name, row.value, row.what);
        if (strlen(row.name) + strlen(row.value) > 700 || !(set = text_assignment(line)))
            continue;
        FUZZ_HOLDS(world_cards_behind(set) && !world_cards_set(&again, set, &err),
                   "a row is read back");
    }
    world_cards_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct world_cards cards;
    struct spin_error err = {0};
    char *text = calloc(1, size + 1);
    memcpy(text, data, size);
    if (read_cards(&cards, text, &err))
        FUZZ_HOLDS(strncmp(err.text, "fuzz:", 5) == 0 && !strchr(err.text, '\n'),
                   "an error is one line and says where");
    else
        check_rows(&cards);
    check_members(&cards);
    world_cards_free(&cards);
    free(text);
    return 0;
}
