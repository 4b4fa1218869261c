#include "client/lib/degraded/cell_order.h"

#include <random>

#include <gtest/gtest.h>

#include "tests/client/fake_cluster.h"

namespace kintsugi::client {
namespace {

/// Collects bytes in order, and the places where the calls began.
class Collector final : public Sink {
 public:
  asio::awaitable<Status> write(uint64_t offset, std::span<const std::span<const std::byte>> from) override {
    EXPECT_EQ(offset, begin + bytes.size());
    for (const auto& range : from)
      bytes.insert(bytes.end(), range.begin(), range.end());
    co_return Status{};
  }
  uint64_t begin = 0;
  std::vector<std::byte> bytes;
};

/// Sub-chunk `row` of a chunk whose last cell is padded.
std::vector<std::byte> sub_chunk(const std::vector<std::byte>& chunk, uint32_t rows, uint64_t cell,
                                 uint32_t row) {
  std::vector<std::byte> sums;
  const uint64_t sub = cell / rows;
  for (uint64_t at = row * sub; at < chunk.size() + cell; at += cell) {
    if (at / cell * cell >= chunk.size()) break;
    for (uint64_t i = at; i < at + sub; ++i)
      sums.push_back(i < chunk.size() ? chunk[i] : std::byte{});
  }
  return sums;
}

TEST(CellOrder, GivesTheBytesOfTheChunkWhateverTheSlicesAndTheRange) {
  const uint64_t seed = 7;
  std::mt19937_64 random(seed);
  for (int i = 0; i < 300; ++i) {
    SCOPED_TRACE(fmt::format("seed {} case {}", seed, i));
    const uint32_t rows = random() % 3 == 0 ? 1 : 4;
    const uint64_t cell = rows * (1 + random() % 50);
    const auto chunk = random_bytes(1 + random() % 2000, random());
    const uint64_t begin = random() % chunk.size(), end = begin + 1 + random() % (chunk.size() - begin);
    std::vector<std::vector<std::byte>> sums;
    for (uint32_t row = 0; row < rows; ++row)
      sums.push_back(rows == 1 ? chunk : sub_chunk(chunk, rows, cell, row));

    Collector collector;
    collector.begin = begin;
    CellOrder order(rows, cell, begin, end, collector);
    simulation::Simulation simulation(seed);
    const auto feed = [&]() -> asio::awaitable<Status> {
      const uint64_t first = rows == 1 ? 0 : begin / cell * (cell / rows);
      for (uint64_t at = first; at < sums[0].size();) {
        const uint64_t part = std::min<uint64_t>(1 + random() % 90, sums[0].size() - at);
        std::vector<std::span<std::byte>> slice;
        for (auto& sum : sums)
          slice.push_back(std::span(sum).subspan(at, part));
        KINTSUGI_CO_TRY(co_await order.put(at, slice, part));
        at += part;
      }
      co_return co_await order.finish();
    };
    ASSERT_EQ(simulation.run(feed()), Status{});
    ASSERT_TRUE(std::equal(collector.bytes.begin(), collector.bytes.end(),
                           chunk.begin() + static_cast<ptrdiff_t>(begin),
                           chunk.begin() + static_cast<ptrdiff_t>(end)));
  }
}

}  // namespace
}  // namespace kintsugi::client
