#include "tracing/agent/following.h"

#include <algorithm>
#include <tuple>

#include "common/base/assert.h"
#include "common/proto/trace.pb.h"

namespace kintsugi::tracing {

using std::chrono::steady_clock;

Following& Following::of_process() {
  // Never destroyed: whoever sends a frame may ask it when the process ends.
  static Following* const following = new Following();
  return *following;
}

void Following::begin(uint64_t owner, FollowTerms terms) {
  const std::lock_guard lock(mutex_);
  Place* place = find(owner);
  if (place == nullptr)
    place = &*std::ranges::min_element(places_, {},
                                       [](const Place& each) { return std::tuple(each.active, each.turn); });
  KINTSUGI_ASSERT(owner != 0 && (!place->active || place->owner == owner));
  *place = Place{.owner = owner, .turn = ++turns_, .active = true, .terms = std::move(terms)};
  rpc::set_follower(this);
}

void Following::end(uint64_t owner) {
  const std::lock_guard lock(mutex_);
  for (Place& each : places_)
    if (owner == 0 || each.owner == owner) {
      each.active = false;
      each.expected.clear();
    }
  if (std::ranges::none_of(places_, &Place::active)) rpc::set_follower(nullptr);
}

Status Following::expect(uint64_t owner, uint64_t connection, uint64_t call) {
  const std::lock_guard lock(mutex_);
  Place* const place = find(owner);
  if (place == nullptr || !place->active) return {Code::kConflict, "the recording has ended"};
  if (place->expected.size() >= kMostExpected)
    return {Code::kLimitExceeded, "too many calls that were announced have not come"};
  place->expected.emplace(connection, call);
  return {};
}

Following::Place* Following::find(uint64_t owner) {
  const auto found = std::ranges::find(places_, owner, &Place::owner);
  return owner != 0 && found != places_.end() ? &*found : nullptr;
}

uint64_t Following::requests(uint64_t owner) const {
  const std::lock_guard lock(mutex_);
  uint64_t sum = 0;
  for (const Place& each : places_)
    if (each.is_told_of(owner)) sum += each.requests;
  return sum;
}

std::map<std::string, Status> Following::peers(uint64_t owner) const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, Status> all;
  for (const Place& each : places_)
    if (each.is_told_of(owner)) all.insert(each.peers.begin(), each.peers.end());
  return all;
}

template <class Wants>
uint32_t Following::count(Wants wants) {
  const std::lock_guard lock(mutex_);
  uint32_t bits = 0;
  for (size_t i = 0; i < kPlaces; ++i) {
    if (!places_[i].active || !wants(places_[i])) continue;
    ++places_[i].requests;
    bits |= uint32_t{1} << i;
  }
  return bits;
}

uint32_t Following::follows(const rpc::CallName& call) {
  // Nobody follows those who trace.
  if (call.method == rpc::Method::kTrace) return 0;
  return count([&](Place& place) { return place.follows(call); });
}

uint32_t Following::follows_own_work() {
  return count([](const Place& place) { return place.terms.own_work; });
}

bool Following::Place::follows(const rpc::CallName& call) {
  const bool announced = expected.erase({call.connection, call.call}) > 0;
  return announced || terms.everything || terms.method == call.method;
}

std::vector<rpc::Announcement> Following::announcements(const std::string& peer, const rpc::CallName& call,
                                                        uint32_t followed) {
  std::vector<rpc::Announcement> all;
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < kPlaces; ++i) {
    if ((followed >> i & 1) == 0) continue;
    std::string request = places_[i].announcement(peer, call);
    if (!request.empty()) all.push_back({.request = std::move(request), .owner = places_[i].owner});
  }
  return all;
}

std::string Following::Place::announcement(const std::string& peer, const rpc::CallName& call) {
  const auto left = terms.deadline - steady_clock::now();
  if (!active || call.connection == 0 || left <= steady_clock::duration::zero()) return {};
  const auto known = peers.find(peer);
  // Whoever refused is not asked again: each time would hold a call back.
  if (known != peers.end() && !known->second.ok()) return {};
  if (known == peers.end() && peers.size() >= kMostPeers) return {};
  if (terms.hops == 0) {
    peers[peer] = {Code::kLimitExceeded, "it is too many processes away"};
    return {};
  }
  // It is known before it is asked: it may begin to record while nobody here listens any more.
  peers.try_emplace(peer);
  proto::TraceRequest request;
  request.set_action(proto::TraceRequest::FOLLOW);
  request.set_owner(owner);
  request.set_hops(terms.hops - 1);
  request.set_bytes(terms.bytes);
  request.set_circular(terms.circular);
  request.set_limit_ms(static_cast<uint64_t>(left / std::chrono::milliseconds(1)) + 1);
  for (const RecordedValues& each : terms.recorded) {
    proto::RecordedValues& values = *request.add_recorded();
    values.set_function(each.function);
    values.set_places(each.places);
  }
  request.set_connection(call.connection);
  request.set_call(call.call);
  return request.SerializeAsString();
}

void Following::announced(const std::string& peer, uint64_t owner, const Status& answer) {
  const std::lock_guard lock(mutex_);
  // The answer to an earlier recording says nothing of another one.
  if (Place* const place = find(owner)) place->peers[peer] = answer;
}

}  // namespace kintsugi::tracing
