// A disk that failed is one fact, however many chunks were on it.
#include <gmock/gmock.h>

#include "tests/metaserver/metaserver_rig.h"

namespace kintsugi::metaserver {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

proto::HeartbeatRequest heartbeat_of(FakeServer& server, proto::DiskState::Health health, uint64_t chunks) {
  proto::HeartbeatRequest request;
  request.set_server_id(server.id.value);
  request.set_incarnation(server.incarnation);
  request.set_sequence(++server.sequence);
  proto::DiskState& disk = *request.add_disk_states();
  disk.set_path("/data/1");
  disk.set_health(health);
  disk.set_chunks(chunks);
  if (health == proto::DiskState::FAILED) disk.set_reason("/data/1/lock was removed");
  return request;
}

TEST(FailedDisk, IsToldInOneLineWithTheNumberOfItsChunks) {
  MetaServerRig rig;
  FakeServer& server = rig.servers.front();
  std::vector<std::string> lines;
  log::set_sink([&](log::Level, std::string_view line) { lines.emplace_back(line); });
  const auto send = [&](proto::DiskState::Health health, uint64_t chunks, uint64_t lost) {
    proto::HeartbeatRequest request = heartbeat_of(server, health, chunks);
    for (uint64_t stripe = 1; stripe <= lost; ++stripe)
      request.add_lost()->set_stripe_id(stripe);
    EXPECT_TRUE(rig.call<proto::HeartbeatResponse>(rpc::Method::kHeartbeat, request));
  };
  send(proto::DiskState::WELL, 2500, 0);
  EXPECT_TRUE(lines.empty());
  for (int heartbeats = 0; heartbeats < 3; ++heartbeats)
    send(proto::DiskState::FAILED, 0, 800);
  log::set_sink({});
  EXPECT_THAT(lines, ElementsAre(AllOf(HasSubstr("disk /data/1 has failed (/data/1/lock was removed)"),
                                       HasSubstr("2500 chunks"))));
}

}  // namespace
}  // namespace kintsugi::metaserver
