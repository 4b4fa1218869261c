/// A chunk store on a simulated machine, and chunks to put into it.
#pragma once

#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "chunkserver/store/chunk_store.h"
#include "chunkserver/store/disk/chunk_format.h"
#include "common/log/log.h"
#include "common/runtime/buffer_pool.h"
#include "tests/expect_ok.h"
#include "tests/simulation/runtime/sim_node.h"
#include "tests/simulation/runtime/simulation.h"

namespace kintsugi::chunkserver {

inline constexpr size_t kMiB = 1 << 20;

inline std::vector<std::byte> chunk_bytes(size_t length, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(round_up(length, 8));
  for (size_t at = 0; at < bytes.size(); at += 8) {
    uint64_t word = random();
    std::memcpy(bytes.data() + at, &word, 8);
  }
  bytes.resize(length);
  return bytes;
}

inline ChunkId chunk_id(uint64_t stripe, uint32_t index = 0) {
  return {StripeId(stripe), index};
}

/// The file of a chunk that has one; in its directory a name that does not exist when there is none.
inline std::string chunk_file(const simulation::SimDisk& disk, const std::string& root, ChunkId id) {
  const std::string directory = fmt::format("{}/chunks/{:02x}/", root, id.stripe.value & 0xff);
  for (const std::string& name : disk.list_now(directory.substr(0, directory.size() - 1))) {
    const auto file = parse_chunk_file_name(name);
    if (file && file->id == id) return directory + name;
  }
  return directory + "none";
}

/// Log lines of expected failures stay out of the tests' output.
class QuietLog {
 public:
  QuietLog() {
    log::set_sink([](log::Level, std::string_view) {});
  }
  ~QuietLog() { log::set_sink({}); }
};

constexpr size_t kTestFrameBytes = 1 << 20;

inline asio::awaitable<Status> append_bytes(runtime::BufferPool& pool, ChunkWriter& writer,
                                            std::span<const std::byte> data) {
  auto buffer = co_await pool.acquire(TimePoint::max());
  if (!buffer) co_return buffer.error();
  std::memcpy(buffer->data(), data.data(), data.size());
  std::vector<uint32_t> crcs = crc32c_blocks(data);
  co_return co_await writer.append(Context{}, std::move(*buffer), data.size(), std::move(crcs));
}

/// Writes in frames of `frame_bytes`.
inline asio::awaitable<Status> put(ChunkStore& store, runtime::BufferPool& pool, ChunkId id,
                                   const std::vector<std::byte>& bytes,
                                   size_t frame_bytes = kTestFrameBytes) {
  auto writer = co_await store.create(Context{}, id, "rs-6-3-1024k", bytes.size());
  if (!writer) co_return writer.error();
  Status status;
  for (size_t at = 0; status.ok() && at < bytes.size(); at += frame_bytes) {
    std::span<const std::byte> part = std::span(bytes).subspan(at, std::min(frame_bytes, bytes.size() - at));
    status = co_await append_bytes(pool, **writer, part);
  }
  if (status.ok()) {
    auto committed = co_await (*writer)->commit(Context{}, bytes.size(), crc32c(bytes));
    if (!committed) status = committed.error();
  }
  co_await (*writer)->abort();
  co_return status;
}

inline asio::awaitable<Result<std::vector<std::byte>>> get(ChunkStore& store, runtime::BufferPool& pool,
                                                           ChunkId id,
                                                           ReadFor purpose = ReadFor::kBackground) {
  auto reader = co_await store.open(Context{}, id, purpose);
  if (!reader) co_return reader.error();
  std::vector<std::byte> bytes;
  while (bytes.size() < (*reader)->length()) {
    auto acquired = co_await pool.acquire(TimePoint::max());
    if (!acquired) co_return acquired.error();
    const auto buffer = std::make_shared<runtime::Buffer>(std::move(*acquired));
    auto blocks = co_await (*reader)->read_blocks(Context{}, bytes.size() / kBlockBytes, 16, buffer);
    if (!blocks) co_return blocks.error();
    bytes.insert(bytes.end(), blocks->data.begin(), blocks->data.end());
  }
  EXPECT_EQ(crc32c(bytes), (*reader)->crc());
  co_return bytes;
}

/// One machine with disks /d0, /d1, ...; the store can be restarted, with or without a power loss.
class StoreRig {
 public:
  explicit StoreRig(uint64_t seed = 1, size_t disks = 1, SegmentLimits segments = {})
      : simulation(simulation::Simulation::seed_from_environment(seed)), node(simulation, "server") {
    for (size_t i = 0; i < disks; ++i)
      options.disks.push_back("/d" + std::to_string(i));
    options.segments = segments;
  }
  ~StoreRig() {
    if (store) stop();
  }

  Status try_start() {
    runtime = std::make_unique<runtime::Runtime>(node.runtime());
    pool = std::make_unique<runtime::BufferPool>(*runtime, 16, kTestFrameBytes);
    store = std::make_unique<ChunkStore>(*runtime, options);
    return simulation.run(store->start());
  }
  void start() {
    Status started = try_start();
    KINTSUGI_ASSERT_OK(started);
  }
  void stop() {
    simulation.run(store->stop());
    store.reset();
    pool.reset();
  }
  void restart() {
    stop();
    start();
  }
  void crash_and_restart(bool power_loss = true) {
    node.crash(power_loss);
    stop();
    node.restart();
    start();
  }

  Status put(ChunkId id, const std::vector<std::byte>& bytes, size_t frame_bytes = kTestFrameBytes) {
    return simulation.run(chunkserver::put(*store, *pool, id, bytes, frame_bytes));
  }
  Result<std::vector<std::byte>> get(ChunkId id, ReadFor purpose = ReadFor::kBackground) {
    return simulation.run(chunkserver::get(*store, *pool, id, purpose));
  }
  Status remove(ChunkId id) { return simulation.run(store->remove(Context{}, id)); }
  /// Every file of the disks but the identity; to see that nothing was left behind.
  std::vector<std::string> files(const std::string& directory) { return node.disk().list_now(directory); }

  QuietLog quiet;
  simulation::Simulation simulation;
  simulation::SimNode node;
  StoreOptions options;
  std::unique_ptr<runtime::Runtime> runtime;
  std::unique_ptr<runtime::BufferPool> pool;
  std::unique_ptr<ChunkStore> store;
};

}  // namespace kintsugi::chunkserver
