/// A copy of a trace that is still being written.
#pragma once

#include <cstdint>

#include "tracing/records/trace_memory.h"

namespace kintsugi::tracing {

/// Blocks that threads have taken so far.
uint32_t blocks_in_use(const TraceMemory& trace);

/// Copies the records of the first `blocks` blocks, and when the recording began, while threads go on recording: nobody waits for it. Of
/// each thread the copy has all records up to some moment between blocks_in_use() and the end of the copying, with the stack that they
/// lead to. REQUIRES: `from` is linear, so that a record which is there never changes; `to` is new, and has so many blocks.
void copy_records(const TraceMemory& from, uint32_t blocks, TraceMemory& to);

}  // namespace kintsugi::tracing
