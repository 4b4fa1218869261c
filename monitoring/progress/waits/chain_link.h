/// One step of the chain that leads to a culprit, in words: who, where, since when, and what it waits for.
#pragma once

#include "monitoring/progress/waits/wait_graph.h"

namespace kintsugi::progress {

proto::ChainLink link_of(const OpenTasks& tasks, const WaitGraph& graph, uint32_t vertex);

}  // namespace kintsugi::progress
