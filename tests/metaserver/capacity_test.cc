// What fits into a cluster.
#include "metaserver/cluster/capacity.h"

#include <gtest/gtest.h>

namespace kintsugi::metaserver {
namespace {

erasure::Policy policy(const char* name) {
  return *erasure::Policy::parse(name);
}

ServerSpace server(uint64_t device, uint64_t free, uint64_t total = 1000) {
  return {.devices = {{.device = device, .total_bytes = total, .free_bytes = free}}};
}

TEST(Capacity, CountsADeviceThatServersShareOnce) {
  std::vector<ServerSpace> servers(10, server(7, 500));
  servers[3].devices[0].free_bytes = 480;  // it looked a moment later
  const Capacity capacity = capacity_of(servers, policy("rs-6-3-1024k"));
  EXPECT_EQ(capacity.total_bytes, 1000u);
  EXPECT_EQ(capacity.free_bytes, 480u);
  EXPECT_EQ(capacity.storable_bytes, 480u / 10 * 10 / 9 * 6);
}

TEST(Capacity, AddsDevicesUpThatAreNotSharedOrNotKnown) {
  const std::vector<ServerSpace> servers{server(1, 100), server(2, 200), server(0, 300), server(0, 300)};
  const Capacity capacity = capacity_of(servers, policy("rs-2-1-64k"));
  EXPECT_EQ(capacity.total_bytes, 4000u);
  EXPECT_EQ(capacity.free_bytes, 900u);
}

TEST(Capacity, IsWhatStripesOverDifferentServersCanFill) {
  const auto storable = [](std::vector<uint64_t> free) {
    std::vector<ServerSpace> servers;
    for (const uint64_t bytes : free)
      servers.push_back(server(servers.size() + 1, bytes));
    return capacity_of(servers, policy("rs-2-1-64k")).storable_bytes;
  };
  EXPECT_EQ(storable({90, 90, 90}), 180u);
  EXPECT_EQ(storable({90, 90, 90, 90}), 240u) << "four servers share the chunks of three";
  EXPECT_EQ(storable({10, 900, 900}), 20u) << "every stripe needs the small one";
  EXPECT_EQ(storable({10, 20, 900, 900}), 60u) << "every stripe needs one of the small ones";
  EXPECT_EQ(storable({900, 900}), 0u) << "two servers are too few";
  EXPECT_EQ(storable({0, 900, 900, 900}), 1800u);
}

TEST(Capacity, LeavesOutServersThatTakeNoChunks) {
  std::vector<ServerSpace> servers{server(1, 90), server(2, 90), server(3, 90), server(4, 90)};
  servers[0].takes_chunks = false;
  const Capacity capacity = capacity_of(servers, policy("rs-2-1-64k"));
  EXPECT_EQ(capacity.storable_bytes, 180u);
  EXPECT_EQ(capacity.free_bytes, 360u);
}

}  // namespace
}  // namespace kintsugi::metaserver
