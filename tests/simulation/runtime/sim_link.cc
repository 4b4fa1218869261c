#include "tests/simulation/runtime/sim_link.h"

#include "tests/simulation/runtime/sim_stream.h"

namespace kintsugi::simulation {

uint64_t Parcel::flow() const {
  return stream->flow(from);
}

Duration Link::time_for(size_t bytes) const {
  if (rate_ == 0) return {};
  return Duration(static_cast<int64_t>(static_cast<unsigned __int128>(bytes) * 1'000'000'000u / rate_));
}

void Link::push(Parcel parcel) {
  const uint64_t flow = parcel.flow();
  auto& queue = queues_[flow];
  queue.push_back(std::move(parcel));
  if (queue.size() > 1) return;
  ready_.push_back(flow);
  pump();
}

void Link::discard(uint64_t flow) {
  if (queues_.erase(flow) == 0) return;
  std::erase(ready_, flow);
  parked_.erase(flow);
}

void Link::unpark() {
  ready_.insert(ready_.end(), parked_.begin(), parked_.end());
  parked_.clear();
  pump();
}

void Link::pump() {
  if (pumping_) return;  // serve_ called us, and the loop below it goes on
  pumping_ = true;
  while (!ready_.empty()) {
    if (busy_until_ > clock_.now()) {
      if (!timer_armed_) {
        timer_armed_ = true;
        clock_.call_at(busy_until_, [this] {
          timer_armed_ = false;
          pump();
        });
      }
      break;
    }
    const uint64_t flow = ready_.front();
    ready_.pop_front();
    auto queue = queues_.find(flow);
    if (!may_pass_(queue->second.front())) {
      parked_.insert(flow);
      continue;
    }
    Parcel parcel = std::move(queue->second.front());
    queue->second.pop_front();
    if (queue->second.empty()) {
      queues_.erase(queue);
    } else {
      ready_.push_back(flow);
    }
    const TimePoint start = clock_.now();
    busy_until_ = start + time_for(parcel.segment.size);
    serve_(std::move(parcel), start, busy_until_);
  }
  pumping_ = false;
}

}  // namespace kintsugi::simulation
