#include "tracing/records/trace_copy.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace kintsugi::tracing {
namespace {

uint32_t taken(const FileHeader& header) {
  return std::min(__atomic_load_n(&header.blocks_taken, __ATOMIC_ACQUIRE), header.blocks);
}

/// Has the stack of a thread be what it was after these records, as who made them changed it. Readers need no more of a frame than its
/// function.
void follow(ThreadEntry& thread, std::span<const Record> records) {
  for (const Record& record : records) {
    if (record.kind == Kind::kEntry && thread.depth < kMostDepth)
      thread.stack[thread.depth++] = {.function = record.function};
    if (record.kind == Kind::kExit && (record.flags & kNoEntry) == 0 && thread.depth > 0) --thread.depth;
  }
}

}  // namespace

uint32_t blocks_in_use(const TraceMemory& trace) {
  return taken(trace.header());
}

void copy_records(const TraceMemory& from, uint32_t blocks, TraceMemory& to) {
  for (uint32_t i = 0; i < blocks; ++i) {
    const Block& source = from.blocks()[i];
    // Whoever made a record published the number of records behind it, and its thread and place before the first one.
    const uint32_t count = __atomic_load_n(&source.header.count, __ATOMIC_ACQUIRE);
    if (count == 0) continue;
    Block& copy = to.blocks()[i];
    copy.header.thread = source.header.thread;
    copy.header.sequence = source.header.sequence;
    copy.header.count = count;
    std::memcpy(copy.records, source.records, count * sizeof(Record));
    // A thread takes blocks in the order of their numbers.
    const ThreadEntry& thread = from.threads()[source.header.thread - 1];
    ThreadEntry& entry = to.threads()[source.header.thread - 1];
    entry.tid = thread.tid;
    std::memcpy(entry.name, thread.name, sizeof(entry.name));
    entry.lost = __atomic_load_n(&thread.lost, __ATOMIC_RELAXED);
    follow(entry, {copy.records, count});
  }
  to.header().blocks_taken = blocks;
  to.header().began = from.header().began;
  to.header().lost = __atomic_load_n(&from.header().lost, __ATOMIC_RELAXED);
}

}  // namespace kintsugi::tracing
