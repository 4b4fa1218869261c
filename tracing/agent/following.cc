#include "tracing/agent/following.h"

#include "common/proto/trace.pb.h"

namespace kintsugi::tracing {

using std::chrono::steady_clock;

Following& Following::of_process() {
  // Never destroyed: whoever sends a frame may ask it when the process ends.
  static Following* const following = new Following();
  return *following;
}

void Following::begin(const FollowTerms& terms) {
  {
    const std::lock_guard lock(mutex_);
    active_ = true;
    terms_ = terms;
    requests_ = 0;
    expected_.clear();
    peers_.clear();
  }
  rpc::set_follower(terms.owner != 0 ? this : nullptr);
}

void Following::end() {
  rpc::set_follower(nullptr);
  const std::lock_guard lock(mutex_);
  active_ = false;
  expected_.clear();
}

Status Following::expect(uint64_t connection, uint64_t call) {
  const std::lock_guard lock(mutex_);
  if (!active_) return {Code::kConflict, "the recording has ended"};
  if (expected_.size() >= kMostExpected)
    return {Code::kLimitExceeded, "too many calls that were announced have not come"};
  expected_.emplace(connection, call);
  return {};
}

uint64_t Following::owner() const {
  const std::lock_guard lock(mutex_);
  return terms_.owner;
}

uint64_t Following::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

std::vector<std::pair<std::string, Status>> Following::peers() const {
  const std::lock_guard lock(mutex_);
  return {peers_.begin(), peers_.end()};
}

bool Following::follows(const rpc::CallName& call) {
  // Nobody follows those who trace.
  if (call.method == rpc::Method::kTrace) return false;
  const std::lock_guard lock(mutex_);
  if (!active_) return false;
  const bool announced = expected_.erase({call.connection, call.call}) > 0;
  const bool followed = announced || terms_.everything || terms_.method == call.method;
  requests_ += followed;
  return followed;
}

bool Following::follows_own_work() {
  const std::lock_guard lock(mutex_);
  const bool followed = active_ && terms_.own_work;
  requests_ += followed;
  return followed;
}

rpc::Announcement Following::announcement(const std::string& peer, const rpc::CallName& call) {
  const std::lock_guard lock(mutex_);
  const auto left = terms_.deadline - steady_clock::now();
  if (!active_ || call.connection == 0 || left <= steady_clock::duration::zero()) return {};
  const auto known = peers_.find(peer);
  // Whoever refused is not asked again: each time would hold a call back.
  if (known != peers_.end() && !known->second.ok()) return {};
  if (known == peers_.end() && peers_.size() >= kMostPeers) return {};
  if (terms_.hops == 0) {
    peers_[peer] = {Code::kLimitExceeded, "it is too many processes away"};
    return {};
  }
  // It is known before it is asked: it may begin to record while nobody here listens any more.
  peers_.try_emplace(peer);
  proto::TraceRequest request;
  request.set_action(proto::TraceRequest::FOLLOW);
  request.set_owner(terms_.owner);
  request.set_hops(terms_.hops - 1);
  request.set_bytes(terms_.bytes);
  request.set_circular(terms_.circular);
  request.set_limit_ms(static_cast<uint64_t>(left / std::chrono::milliseconds(1)) + 1);
  for (const RecordedValues& each : terms_.recorded) {
    proto::RecordedValues& values = *request.add_recorded();
    values.set_function(each.function);
    values.set_places(each.places);
  }
  request.set_connection(call.connection);
  request.set_call(call.call);
  return {.request = request.SerializeAsString(), .owner = terms_.owner};
}

void Following::announced(const std::string& peer, uint64_t owner, const Status& answer) {
  const std::lock_guard lock(mutex_);
  // The answer to an earlier recording says nothing of this one.
  if (owner != terms_.owner) return;
  peers_[peer] = answer;
}

}  // namespace kintsugi::tracing
