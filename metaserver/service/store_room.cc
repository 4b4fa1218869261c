#include "metaserver/service/store_room.h"

#include "common/log/log.h"

namespace kintsugi::metaserver {

void StoreRoom::look() {
  const TimePoint now = clock_.now();
  if (known_until_ && now < *known_until_) return;
  const bool was_short = known_until_ && is_short();
  space_ = store_.space();
  known_until_ = now + kInterval;
  if (!was_short && is_short()) log::warning("{}", refusal().message());
}

Status StoreRoom::refusal() const {
  if (space_.free_bytes < kReserveBytes)
    return {
        Code::kNoSpace,
        fmt::format("the metaserver's disk has only {} MiB free: it takes nothing new until it has {} MiB",
                    space_.free_bytes >> 20, kReserveBytes >> 20)};
  return {Code::kNoSpace,
          fmt::format(
              "the metaserver's disk has only {} free inodes: it takes nothing new until it has {} of them",
              space_.free_inodes, kReserveInodes)};
}

Status StoreRoom::check() {
  look();
  return is_short() ? refusal() : Status{};
}

proto::Room StoreRoom::describe() {
  look();
  proto::Room room;
  room.set_total_bytes(space_.total_bytes);
  room.set_free_bytes(space_.free_bytes);
  room.set_free_inodes(space_.free_inodes);
  room.set_needed_bytes(kReserveBytes);
  room.set_needed_inodes(kReserveInodes);
  room.set_full(is_short());
  return room;
}

}  // namespace kintsugi::metaserver
