/* The critical path of `openspin goal run`: steps from the beginning to the makespan, and what they
 * are spent on. */
#include "cli_goal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const kinds[] = {"cpu", "nic", "network", "match"};

/* Of all steps, in ps. */
struct spent {
    const char *key, *text;
    uint64_t ps;
};
enum { CALC, OVERHEAD, NIC, NETWORK, PARTS };

static void add_up(const struct spin_goal_result *r, struct spent spent[PARTS]) {
    spent[CALC] = (struct spent){"calc_ps", "computation", 0};
    spent[OVERHEAD] = (struct spent){"overhead_ps", "cpu for messages", 0};
    spent[NIC] = (struct spent){"nic_ps", "gaps of nics", 0};
    spent[NETWORK] = (struct spent){"network_ps", "messages on the way", 0};
    for (uint32_t i = 0; i < r->steps; i++) {
        const struct spin_goal_step *s = &r->step[i];
        bool calc = !s->receives && strncmp(s->what, "calc", 4) == 0;
        spent[s->kind == SPIN_STEP_NETWORK ? NETWORK
              : s->kind == SPIN_STEP_NIC   ? NIC
              : calc                       ? CALC
                                           : OVERHEAD]
            .ps += s->length_ps;
    }
}

void goal_print_path(const struct spin_goal_result *r) {
    enum { SHOWN = 40 };
    struct spent spent[PARTS];
    add_up(r, spent);
    printf("critical path            %u steps\n", r->steps);
    for (int i = 0; i < PARTS; i++)
        printf("  %-22s %" PRIu64 ".%03" PRIu64 " ns, %.1f %%\n", spent[i].text, spent[i].ps / 1000,
               spent[i].ps % 1000,
               r->makespan_ps ? 100.0 * (double)spent[i].ps / (double)r->makespan_ps : 0);
    if (r->steps)
        printf("  %14s %14s  %-8s %-6s %s\n", "from ns", "for ns", "in", "rank", "operation");
    for (uint32_t i = 0; i < r->steps && i < SHOWN; i++) {
        const struct spin_goal_step *s = &r->step[i];
        printf("  %10" PRIu64 ".%03" PRIu64 " %10" PRIu64 ".%03" PRIu64 "  %-8s %-6u ",
               s->start_ps / 1000, s->start_ps % 1000, s->length_ps / 1000, s->length_ps % 1000,
               kinds[s->kind], s->rank);
        if (s->receives)
            printf("%s\n", s->what);
        else
            printf("%u: %s\n", s->operation, s->what);
    }
    if (r->steps > SHOWN)
        printf("  and %u more steps: --json prints all\n", r->steps - SHOWN);
}

void goal_json_path(struct json *j, const struct spin_goal_result *r) {
    struct spent spent[PARTS];
    add_up(r, spent);
    json_object(j, "critical_path");
    for (int i = 0; i < PARTS; i++)
        json_u64(j, spent[i].key, spent[i].ps);
    json_array(j, "steps");
    for (uint32_t i = 0; i < r->steps; i++) {
        const struct spin_goal_step *s = &r->step[i];
        json_object(j, NULL);
        json_string(j, "in", kinds[s->kind]);
        json_u64(j, "rank", s->rank);
        json_string(j, "what", s->what);
        json_u64(j, "operation", s->operation);
        json_u64(j, "operation_rank", s->from);
        json_u64(j, "start_ps", s->start_ps);
        json_u64(j, "length_ps", s->length_ps);
        json_end_object(j);
    }
    json_end_array(j);
    json_end_object(j);
}
