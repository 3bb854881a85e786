/* Every figure's run, for the table in experiment_list.c. */
#ifndef OPENSPIN_EXPERIMENTS_FIGURES_H
#define OPENSPIN_EXPERIMENTS_FIGURES_H

#include "experiment.h"

#define EXPERIMENT_RUN(name)                                                                       \
    int name(const struct experiment_context *context, struct sheet *sheet, struct spin_error *err)

EXPERIMENT_RUN(dfs22_fig4);
EXPERIMENT_RUN(dfs22_fig6);
EXPERIMENT_RUN(dfs22_fig7);
EXPERIMENT_RUN(dfs22_fig9);
EXPERIMENT_RUN(dfs22_fig10);
EXPERIMENT_RUN(dfs22_fig11);
EXPERIMENT_RUN(dfs22_fig15);
EXPERIMENT_RUN(dfs22_fig16);
EXPERIMENT_RUN(dfs22_fig16_left);
EXPERIMENT_RUN(dfs22_table1);
EXPERIMENT_RUN(dfs22_table2);
EXPERIMENT_RUN(dfs22_timelines);
EXPERIMENT_RUN(part_fig9);
EXPERIMENT_RUN(part_fig10);
EXPERIMENT_RUN(part_fig11);
EXPERIMENT_RUN(part_fig12);
EXPERIMENT_RUN(part_fig13);
EXPERIMENT_RUN(part_fig14);
EXPERIMENT_RUN(part_fig15);
EXPERIMENT_RUN(part_fig16);
EXPERIMENT_RUN(part_unpinned_live);
EXPERIMENT_RUN(part_eq1);
EXPERIMENT_RUN(part_table2);
EXPERIMENT_RUN(part_table3);
EXPERIMENT_RUN(part_table4);
EXPERIMENT_RUN(pspin_fig4);
EXPERIMENT_RUN(pspin_fig6);
EXPERIMENT_RUN(pspin_fig8);
EXPERIMENT_RUN(pspin_fig9);
EXPERIMENT_RUN(pspin_fig10);
EXPERIMENT_RUN(pspin_fig11);
EXPERIMENT_RUN(pspin_fig12);
EXPERIMENT_RUN(pspin_fig13);
EXPERIMENT_RUN(pspin_latency);
EXPERIMENT_RUN(pspin_rtl);
EXPERIMENT_RUN(pspin_table3);
EXPERIMENT_RUN(sc17_fig3b);
EXPERIMENT_RUN(sc17_fig3c);
EXPERIMENT_RUN(sc17_fig3d);
EXPERIMENT_RUN(sc17_fig4);
EXPERIMENT_RUN(sc17_cards);
EXPERIMENT_RUN(sc17_collectives);
EXPERIMENT_RUN(sc17_fig5a);
EXPERIMENT_RUN(sc17_fig5b);
EXPERIMENT_RUN(sc17_fig7a);
EXPERIMENT_RUN(sc17_fig7c);
EXPERIMENT_RUN(sc17_ftb);
EXPERIMENT_RUN(sc17_graph);
EXPERIMENT_RUN(sc17_kv);
EXPERIMENT_RUN(sc17_table5c);
EXPERIMENT_RUN(sc17_spc);
EXPERIMENT_RUN(sc17_timelines);
EXPERIMENT_RUN(sc17_transactions);
EXPERIMENT_RUN(slides_datatypes);
EXPERIMENT_RUN(slides_fft2d);
EXPERIMENT_RUN(slides_scan);
EXPERIMENT_RUN(spinlib_speed);
EXPERIMENT_RUN(spinlib_speed_live);
EXPERIMENT_RUN(sc17_fig3_live);
EXPERIMENT_RUN(sc17_fig5a_live);

#endif
