// When the closed form may answer: not where what it leaves out decides.
#include <cmath>

#include <gtest/gtest.h>

#include "common/log/log.h"
#include "repair_manager/what_if/loss.h"

namespace kintsugi::what_if {
namespace {

/// Fifty servers with 20,000 chunks each.
Cluster large_cluster() {
  const erasure::Policy policy = *erasure::Policy::parse("rs-6-3-1024k");
  return *described({.servers = 50,
                     .racks = 0,
                     .stripes = 20'000 * 50 / 9,
                     .policy = policy,
                     .chunk_bytes = 64 << 20,
                     .link_rate = 10e9 / 8});
}

TEST(ClosedForm, DoesNotAnswerForAClusterThatIsNearlyFull) {
  Cluster cluster = large_cluster();
  for (Server& server : cluster.servers)
    server.free_bytes = uint64_t{10} << 30;  // a quarter of what each would have to take
  const auto forecast = forecast_loss(cluster, {.servers = {3}, .budget = 0.1});
  ASSERT_TRUE(forecast) << forecast.error();
  EXPECT_NE(forecast->method, Method::kClosedForm);
  EXPECT_GT(forecast->waiting_chunks, 0);
}

TEST(ClosedForm, DoesNotAnswerWhenNoLinkIsKnown) {
  Cluster cluster = large_cluster();
  cluster.usual_rate = 0;
  for (Server& server : cluster.servers)
    server.up = server.down = 0;
  const auto forecast = forecast_loss(cluster, {.servers = {3}, .budget = 0.1});
  ASSERT_TRUE(forecast) << forecast.error();
  ASSERT_TRUE(forecast->all_seconds);
  EXPECT_TRUE(std::isfinite(*forecast->all_seconds));
}

}  // namespace
}  // namespace kintsugi::what_if
