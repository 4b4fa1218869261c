#include "common/proto/room_verdicts.h"

#include <fmt/format.h>

#include "common/base/human_bytes.h"

namespace kintsugi::proto {
namespace {

Verdict full(const char* where, const Room& room) {
  Verdict verdict;
  verdict.set_kind(Verdict::FULL);
  verdict.set_server(where);
  verdict.set_confidence(Verdict::CERTAIN);
  verdict.set_probability(1);
  *verdict.mutable_room() = room;
  return verdict;
}

}  // namespace

std::vector<Verdict> no_room(const Room& servers, const Room& metadata) {
  std::vector<Verdict> verdicts;
  if (servers.full()) verdicts.push_back(full("cluster", servers));
  if (metadata.full()) {
    verdicts.push_back(full("metaserver", metadata));
    verdicts.back().set_process_kind("metaserver");
  }
  return verdicts;
}

bool is_metadata_full(const Verdict& verdict) {
  return verdict.kind() == Verdict::FULL && verdict.process_kind() == "metaserver";
}

std::string missing_room(const Verdict& verdict) {
  const Room& room = verdict.room();
  const std::string free =
      fmt::format("{} of {} free", human_bytes(room.free_bytes()), human_bytes(room.total_bytes()));
  if (is_metadata_full(verdict)) {
    if (room.free_bytes() < room.needed_bytes())
      return fmt::format("{}, and it needs {}", free, human_bytes(room.needed_bytes()));
    return fmt::format("{} inodes free, and it needs {}", room.free_inodes(), room.needed_inodes());
  }
  const bool all = room.full_servers() == room.servers();
  const std::string servers = all ? fmt::format("all {} servers", room.servers())
                                  : fmt::format("{} of {} servers", room.full_servers(), room.servers());
  if (room.free_bytes() == 0) return fmt::format("{} on {}", free, servers);
  return fmt::format("{}, and {} have less than {}", free, servers, human_bytes(room.needed_bytes()));
}

}  // namespace kintsugi::proto
