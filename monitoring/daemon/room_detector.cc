#include "monitoring/daemon/room_detector.h"

#include "common/proto/room_verdicts.h"

namespace kintsugi::monitoring {

std::vector<proto::Verdict> RoomDetector::examine(const model::Snapshot& snapshot) {
  const model::MetaserverLife& said = snapshot.metaserver;
  std::map<std::string, TimePoint> before = std::move(since_);
  since_.clear();
  std::vector<proto::Verdict> found;
  // What a metaserver said that does not answer any more may be over.
  if (said.unanswered && *said.unanswered > kUnanswered) return found;
  for (proto::Verdict& verdict : proto::no_room(said.servers_room, said.metadata_room)) {
    const auto known = before.find(verdict.server());
    const TimePoint since = known == before.end() ? snapshot.taken : known->second;
    since_.emplace(verdict.server(), since);
    verdict.set_since_ns(static_cast<uint64_t>((snapshot.taken - since).count()));
    if (snapshot.taken - since >= kLasts) found.push_back(std::move(verdict));
  }
  return found;
}

}  // namespace kintsugi::monitoring
