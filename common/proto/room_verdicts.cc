#include "common/proto/room_verdicts.h"

#include <array>
#include <string_view>

#include <fmt/format.h>

namespace kintsugi::proto {
namespace {

std::string size_text(uint64_t bytes) {
  constexpr std::array<std::string_view, 6> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit)
    value /= 1024;
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

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
      fmt::format("{} of {} free", size_text(room.free_bytes()), size_text(room.total_bytes()));
  if (is_metadata_full(verdict)) {
    if (room.free_bytes() < room.needed_bytes())
      return fmt::format("{}, and it needs {}", free, size_text(room.needed_bytes()));
    return fmt::format("{} inodes free, and it needs {}", room.free_inodes(), room.needed_inodes());
  }
  const bool all = room.full_servers() == room.servers();
  const std::string servers = all ? fmt::format("all {} servers", room.servers())
                                  : fmt::format("{} of {} servers", room.full_servers(), room.servers());
  if (room.free_bytes() == 0) return fmt::format("{} on {}", free, servers);
  return fmt::format("{}, and {} have less than {}", free, servers, size_text(room.needed_bytes()));
}

}  // namespace kintsugi::proto
