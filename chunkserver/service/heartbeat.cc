#include "chunkserver/service/heartbeat.h"

#include <algorithm>

#include "monitoring/sight/summary.h"

namespace kintsugi::chunkserver {
namespace {

proto::DiskState::Health health_of(DiskCondition condition) {
  switch (condition) {
    case DiskCondition::kWell: return proto::DiskState::WELL;
    case DiskCondition::kSlow: return proto::DiskState::SLOW;
    case DiskCondition::kHung: return proto::DiskState::HUNG;
    case DiskCondition::kReadOnly: return proto::DiskState::READ_ONLY;
    case DiskCondition::kFailed: return proto::DiskState::FAILED;
  }
  return proto::DiskState::FAILED;
}

}  // namespace

Heartbeat::Heartbeat(const runtime::Clock& clock, ChunkStore& store, LoadReport& load,
                     const sight::Recorder& recorder, DeletionOrders& orders, LinkProber& prober)
    : store_(store),
      load_(load),
      recorder_(recorder),
      orders_(orders),
      prober_(prober),
      cache_(store.cache(), store.usage(), clock) {}

void Heartbeat::restate() {
  cache_.restate();
  orders_.begin_anew();
}

void Heartbeat::fill_disks(proto::HeartbeatRequest& request) const {
  uint32_t position = 0;
  for (const DiskReport& disk : store_.disk_reports()) {
    proto::DiskState& told = *request.add_disk_states();
    told.set_disk(position++);
    told.set_path(disk.path);
    told.set_health(health_of(disk.condition));
    told.set_reason(disk.reason);
    told.set_total_bytes(disk.total_bytes);
    told.set_free_bytes(disk.free_bytes);
    told.set_chunks(disk.chunks);
    told.set_read_errors(disk.read_errors);
    told.set_write_errors(disk.write_errors);
    told.set_oldest_call_seconds(to_seconds(disk.oldest_call));
    told.set_full(disk.full);
    if (disk.full && disk.reason.empty()) told.set_reason("it answered \"no space\"");
  }
}

void Heartbeat::fill(proto::HeartbeatRequest& request) {
  const StoreSpace space = store_.known_space();
  request.set_total_bytes(space.total_bytes);
  request.set_free_bytes(space.free_bytes);
  for (const runtime::DiskSpace& device : space.devices) {
    proto::DeviceSpace& told = *request.add_devices();
    told.set_device(device.device);
    told.set_total_bytes(device.total_bytes);
    told.set_free_bytes(device.free_bytes);
  }
  request.set_chunks(space.chunks);
  request.set_stored_bytes(space.stored_bytes);
  request.set_disks(space.disks);
  request.set_failed_disks(space.failed_disks);
  fill_disks(request);
  load_.fill(request);
  cache_.fill(request);
  for (const ChunkInfo& chunk : store_.take_lost())
    lost_.push_back(chunk);
  // A reader may have told of the loss before, and the repair may have put the chunk back here: that one is not lost.
  // Only those that this heartbeat may tell are looked at: a disk may leave so many that each heartbeat would cost a
  // walk over all.
  const auto end = lost_.begin() + static_cast<ptrdiff_t>(std::min(lost_.size(), kMaxLost));
  const auto is_back = [this](const ChunkInfo& chunk) { return store_.find(chunk.id).has_value(); };
  const auto told_end = std::remove_if(lost_.begin(), end, is_back);
  for (auto chunk = lost_.begin(); chunk != told_end; ++chunk)
    chunkserver::fill(*request.add_lost(), *chunk);
  lost_.erase(told_end, end);
  *request.mutable_sight() = sight::summarise(recorder_, {});
  orders_.acknowledge(request);
}

void Heartbeat::delivered(const proto::HeartbeatRequest& request) {
  // Heartbeats are sent one after the other, so what this one told still stands at the front.
  lost_.erase(lost_.begin(), lost_.begin() + request.lost_size());
  cache_.delivered(request);
}

void Heartbeat::obey(const proto::HeartbeatResponse& response) {
  if (!response.probe_address().empty()) {
    auto peer = runtime::Endpoint::parse(response.probe_address());
    if (peer) prober_.offer(named_peer_.emplace(std::move(*peer)));
  }
  orders_.take(response);
}

void fill(proto::ReportedChunk& out, const ChunkInfo& chunk) {
  out.set_stripe_id(chunk.id.stripe.value);
  out.set_index(chunk.id.index);
  out.set_length(chunk.length);
  out.set_crc(chunk.crc);
}

}  // namespace kintsugi::chunkserver
