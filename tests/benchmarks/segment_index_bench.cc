// How long the loop stands still while a segment is cleaned on a disk with millions of small chunks.
#include <random>

#include <benchmark/benchmark.h>

#include "chunkserver/store/segments/segment_index.h"

namespace kintsugi::chunkserver {
namespace {

constexpr uint64_t kChunksPerSegment = 16'000;  // of 4 KiB, in 128 MiB
constexpr uint64_t kDeadChunks = 1'000'000;     // each with a tombstone

/// `chunks` live chunks in the order of random ids, as a cluster's stripes are, and besides a million dead ones.
struct FullDisk {
  explicit FullDisk(uint64_t chunks) {
    std::mt19937_64 random(1);
    std::vector<ChunkId> dead;
    for (uint64_t i = 0; i < chunks + kDeadChunks; ++i) {
      const ChunkId id{StripeId(random()), uint32_t(random() % 9)};
      if (i % kChunksPerSegment == 0) begin_segment();
      RecordHeader header;
      header.info = {id, 4096, 0};
      header.offset = segments.back()->end;
      header.sequence = index.take_sequence();
      index.put_chunk(segments.back(), header);
      segments.back()->end += header.record_bytes();
      if (i % 4 == 0 && dead.size() < kDeadChunks) dead.push_back(id);
    }
    for (size_t i = 0; i < dead.size(); ++i) {
      if (i % kChunksPerSegment == 0) begin_segment();
      index.put_tombstone(*segments.back(), {dead[i], index.take_sequence()});
    }
  }
  void begin_segment() {
    auto segment = std::make_shared<Segment>();
    segment->number = index.take_segment_number();
    index.add_segment(segment);
    segments.push_back(std::move(segment));
  }

  SegmentIndex index;
  std::vector<std::shared_ptr<Segment>> segments;
};

FullDisk& full_disk(uint64_t chunks) {
  static std::unique_ptr<FullDisk> disk;
  static uint64_t made = 0;
  if (std::exchange(made, chunks) != chunks) {
    disk.reset();
    disk = std::make_unique<FullDisk>(chunks);
  }
  return *disk;
}

/// What the loop does without a pause at most: it forgets a segment that was deleted.
void forget_a_segment(benchmark::State& state) {
  FullDisk& disk = full_disk(state.range(0));
  size_t next = 0;
  for (auto _ : state)
    disk.index.forget_segment(*disk.segments[next++]);
}

/// What it does in steps, between reads and syncs of copies: it finds what lives in a segment, and which tombstones are needed.
void look_through_a_segment(benchmark::State& state) {
  FullDisk& disk = full_disk(state.range(0));
  size_t next = disk.segments.size() / 2, found = 0;
  for (auto _ : state) {
    const Segment& segment = *disk.segments[next];
    next = (next + 7) % disk.segments.size();
    for (size_t i = 0; i < segment.records.size(); ++i)
      found += disk.index.is_live(segment, i);
    for (const Tombstone& tombstone : segment.tombstones)
      found += disk.index.is_needed(segment, tombstone);
  }
  benchmark::DoNotOptimize(found);
}

BENCHMARK(look_through_a_segment)
    ->Arg(300'000)
    ->Arg(3'000'000)
    ->Iterations(50)
    ->Unit(benchmark::kMillisecond);
BENCHMARK(forget_a_segment)->Arg(300'000)->Arg(3'000'000)->Iterations(20)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kintsugi::chunkserver

BENCHMARK_MAIN();
