#include "figures.h"

const struct experiment experiments[] = {
    {"dfs22/fig16-right", "HPUs for line rate over handler duration", "DFS'22 figure 16", false,
     dfs22_fig16},
    {"pspin/fig4", "copying data: one core, local and remote", "ISCA'21 figure 4", false,
     pspin_fig4},
    {"pspin/fig6", "handler time and line rate", "ISCA'21 figure 6", false, pspin_fig6},
    {"pspin/fig8", "inbound throughput and HPUs in use", "ISCA'21 figure 8", false, pspin_fig8},
    {"pspin/fig9", "outbound throughput, from L1 and L2", "ISCA'21 figure 9", false, pspin_fig9},
    {"pspin/fig10", "throughput of six workloads", "ISCA'21 figure 10", false, pspin_fig10},
    {"pspin/fig11", "throughput of a core: HPU and this machine", "ISCA'21 figure 11", true,
     pspin_fig11},
    {"pspin/fig12", "six workloads: time, instructions, accesses", "ISCA'21 figure 12", false,
     pspin_fig12},
    {"pspin/fig13", "packet buffer by Little's law", "ISCA'21 figure 13", false, pspin_fig13},
    {"pspin/latency", "latency of an unloaded card, by parts", "ISCA'21 section IV-B1", false,
     pspin_latency},
    {"pspin/rtl", "handlers and loads beside the card's RTL", "cycle counts of the public RTL",
     false, pspin_rtl},
    {"pspin/table3", "area and power of the card", "ISCA'21 table III", false, pspin_table3},
    {"sc17/fig4", "HPUs needed for line rate", "SC'17 figure 4", false, sc17_fig4},
    {0},
};
