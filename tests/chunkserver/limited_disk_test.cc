// A disk that was told how fast it may be.
#include "tests/chunkserver/store_rig.h"
#include "tests/expect_ok.h"

namespace kintsugi::chunkserver {
namespace {

double seconds_of(StoreRig& rig, const std::function<void()>& act) {
  const TimePoint began = rig.simulation.now();
  act();
  return std::chrono::duration<double>(rig.simulation.now() - began).count();
}

TEST(LimitedDisk, ReadsAndWritesPassAtTheGivenRate) {
  StoreRig rig;
  rig.options.disk_bytes_per_second = 10 * kMiB;
  rig.start();
  const auto bytes = chunk_bytes(20 * kMiB, 1);
  const double writing = seconds_of(rig, [&] { KINTSUGI_ASSERT_OK(rig.put(chunk_id(1), bytes)); });
  EXPECT_GT(writing, 1.9);
  EXPECT_LT(writing, 2.2);
  const double reading = seconds_of(rig, [&] { ASSERT_EQ(*rig.get(chunk_id(1)), bytes); });
  EXPECT_GT(reading, 1.9);
  EXPECT_LT(reading, 2.2);
  const Duration busy = rig.store->disk_busy_times().at(0);
  EXPECT_GT(busy, 3800ms);
  rig.simulation.run_for(10s);
  EXPECT_EQ(rig.store->disk_busy_times().at(0), busy) << "an idle disk is not busy";
  EXPECT_EQ(rig.store->disk_calls_under_way().at(0), 0u);
}

TEST(LimitedDisk, EachDiskHasItsOwnRate) {
  StoreRig rig(1, 2);
  rig.options.disk_bytes_per_second = 10 * kMiB;
  rig.start();
  const auto bytes = chunk_bytes(10 * kMiB, 1);
  const double both = seconds_of(rig, [&] {
    runtime::TaskGroup tasks(*rig.runtime);
    for (uint64_t id = 1; id <= 2; ++id) {
      tasks.spawn(
          [](StoreRig& r, uint64_t chunk, const std::vector<std::byte>& data) -> asio::awaitable<void> {
            KINTSUGI_EXPECT_OK(co_await put(*r.store, *r.pool, chunk_id(chunk), data));
          }(rig, id, bytes));
    }
    rig.simulation.run(tasks.join());
  });
  EXPECT_EQ(rig.node.disk().list_now("/d0/chunks").size(), 1u);
  EXPECT_EQ(rig.node.disk().list_now("/d1/chunks").size(), 1u);
  EXPECT_LT(both, 1.2);
  EXPECT_GT(both, 0.9);
}

TEST(LimitedDisk, WithoutALimitNothingWaits) {
  StoreRig rig;
  rig.start();
  const auto bytes = chunk_bytes(20 * kMiB, 1);
  EXPECT_LT(seconds_of(rig, [&] { KINTSUGI_ASSERT_OK(rig.put(chunk_id(1), bytes)); }), 0.2);
}

}  // namespace
}  // namespace kintsugi::chunkserver
