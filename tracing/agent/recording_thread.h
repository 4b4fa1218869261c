/// A thread that records, and its room for records: a part of the payload (payload.cc), compiled with it and for it alone.
#pragma once

#include <cstdint>

#include "tracing/agent/recording.h"
#include "tracing/agent/shared.h"

namespace kintsugi::tracing {

/// A thread that records. Its own but for `inside`, which whoever ends a recording looks at, and `tid`, by which room is made again.
struct alignas(64) ThreadState {
  Record* next = nullptr;
  Record* end = nullptr;
  Block* block = nullptr;
  ThreadEntry* entry = nullptr;
  uint64_t last_return = 0;   ///< where the last outermost function returned to
  uint32_t oldest_block = 0;  ///< index + 1
  uint32_t blocks = 0, sequence = 0;
  uint32_t recording = 0;  ///< the number of the one that all of this belongs to
  Shared<uint32_t> tid{0};
  Shared<bool> claimed{false};
  Shared<bool> inside{false};
};

inline uint64_t ticks() {
  uint32_t low, high;
  asm volatile("rdtsc" : "=a"(low), "=d"(high));
  return uint64_t{high} << 32 | low;
}

inline uint32_t take_block(Recording& recording, ThreadState& me) {
  // In a recording that continues for ever, busy threads leave room to those that come later.
  const uint32_t most =
      recording.circular && me.blocks >= 2 ? recording.block_count / 4 * 3 : recording.block_count;
  if (value_of(recording.header->blocks_taken) < most) {
    const uint32_t number = add_to(recording.header->blocks_taken, 1u);
    if (number < recording.block_count) return number + 1;
  }
  if (!recording.circular || me.blocks < 2) return 0;
  const uint32_t oldest = me.oldest_block;
  me.oldest_block = recording.blocks[oldest - 1].header.next;
  --me.blocks;
  return oldest;
}

/// Gives the thread room for records. False: there is none.
[[gnu::noinline, clang::preserve_most]] inline bool make_room(Recording& recording, ThreadState& me) {
  if (me.entry == nullptr) {
    add_to(recording.header->lost, uint64_t{1});
    return false;
  }
  const uint32_t taken = take_block(recording, me);
  if (taken == 0) {
    ++me.entry->lost;
    return false;
  }
  Block& block = recording.blocks[taken - 1];
  // Who reads meanwhile finds no record of it under its new number that is an old one.
  publish(block.header.count, 0u);
  block.header.sequence = me.sequence++;
  block.header.thread = static_cast<uint32_t>(me.entry - recording.threads) + 1;
  if (me.block != nullptr) me.block->header.next = taken;
  if (me.blocks == 0) me.oldest_block = taken;
  ++me.blocks;
  me.block = &block;
  me.next = block.records;
  me.end = block.records + kRecordsOfABlock;
  me.entry->newest_block = taken;
  return true;
}

/// There is room for the record.
inline void append(ThreadState& me, const Record& record) {
  *me.next++ = record;
  // A killed process leaves only whole records behind.
  publish(me.block->header.count, me.block->header.count + 1);
}

inline void write(Recording& recording, ThreadState& me, const Record& record) {
  if (me.next == me.end) [[unlikely]] {
    if (!make_room(recording, me)) return;
  }
  append(me, record);
}

inline void write_record(Recording& recording, ThreadState& me, Kind kind, uint32_t function, uint8_t flags) {
  write(recording, me, {.ticks = ticks(), .function = function, .kind = kind, .flags = flags});
}

}  // namespace kintsugi::tracing
