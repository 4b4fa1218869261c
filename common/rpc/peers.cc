#include "common/rpc/peers.h"

#include <algorithm>

#include "common/log/log.h"
#include "common/rpc/token.h"

namespace kintsugi::rpc {
namespace {

constexpr uint64_t kNumbers = uint64_t{1} << 22;  ///< more than a server has connections

}  // namespace

std::string_view address_of(std::string_view peer) {
  return peer.substr(0, peer.rfind(':'));
}

Peer::Peer(std::shared_ptr<Peers> peers, std::string name, uint64_t number)
    : peers_(std::move(peers)), name_(std::move(name)), number_(number) {
  peers_->numbers_.emplace(number_, this);
}

Peer::~Peer() {
  KINTSUGI_ASSERT(waiting_.empty() && requests_ == 0 && bytes_ == 0);
  peers_->numbers_.erase(number_);
  peers_->peers_.erase(name_);
}

Peer::Held::~Held() {
  if (peer_) peer_->give_back(requests_, bytes_);
}

void Peer::Held::resize(size_t bytes) {
  KINTSUGI_ASSERT(peer_ != nullptr);
  const size_t before = std::exchange(bytes_, bytes);
  peer_->bytes_ += bytes;
  peer_->give_back(0, before);
}

Peer::Waiter::Waiter(Peer& peer, const Need& need, Wakeup& told)
    : peer_(peer), need_(need), told_(told), at_(peer.waiting_.insert(peer.waiting_.end(), this)) {
  if (need_.always) ++peer_.few_waiting_;
  if (!peer_.has_room(need_))
    peer_.peers_->note_held_back(peer_, peer_.lines_.allow(peer_.peers_->clock_.now()).has_value());
  peer_.grant();
}

Peer::Waiter::~Waiter() {
  if (at_ == peer_.waiting_.end()) return;
  if (need_.always) --peer_.few_waiting_;
  peer_.waiting_.erase(at_);
  peer_.grant();  // it may have been the one that the others were behind
}

Peer::Held Peer::try_hold(const Need& need) {
  const bool first = need.always ? few_waiting_ == 0 : waiting_.empty();
  return first && has_room(need) && has_turn(need) ? hold(need) : Held();
}

Peer::Held Peer::hold_bytes(size_t bytes) {
  return hold({.bytes = bytes});
}

Peer::Held Peer::hold(const Need& need) {
  requests_ += need.requests;
  bytes_ += need.bytes;
  begun_ += need.requests;
  return {shared_from_this(), need};
}

void Peer::give_back(size_t requests, size_t bytes) {
  requests_ -= requests;
  bytes_ -= bytes;
  if (!waiting_.empty()) grant();
}

void Peer::grant() {
  bool full = false;  // for all but the few that are always let through
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    Waiter& waiter = **next;
    if (full && few_waiting_ == 0) return;
    if (!waiter.need_.always && (full || !has_room(waiter.need_))) {
      full = true;
      ++next;
      continue;
    }
    if (!has_turn(waiter.need_)) return ask_for_turn();
    if (waiter.need_.always) --few_waiting_;
    waiter.held_ = hold(waiter.need_);
    next = waiting_.erase(next);
    waiter.at_ = waiting_.end();
    waiter.told_.notify();
  }
}

bool Peer::is_held_back() const {
  return !waiting_.empty() && !has_room(waiting_.front()->need_);
}

void Peer::ask_for_turn() {
  if (std::exchange(turn_asked_, true)) return;
  // At the end of the queue of the loop: what other peers sent meanwhile is before it.
  peers_->executor_.execute([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    self->turn_asked_ = false;
    self->begun_ = 0;
    self->grant();
  });
}

std::string Peers::name_of(const Principal& by, std::string_view address) {
  if (by.is_token()) return fmt::format("the token {} ({:016x})", by.name, by.id);
  return std::string(address_of(address));
}

std::shared_ptr<Peer> Peers::of(const Principal& by, std::string_view address) {
  const std::string name = name_of(by, address);
  std::weak_ptr<Peer>& known = peers_[name];
  if (auto peer = known.lock()) return peer;
  do {
    last_number_ = last_number_ % (kNumbers - 1) + 1;
  } while (numbers_.contains(last_number_));
  auto peer = std::make_shared<Peer>(shared_from_this(), name, last_number_);
  known = peer;
  return peer;
}

Status Peers::check_connection(const Principal& by, std::string_view address, size_t left) {
  const std::string name = name_of(by, address);
  const auto known = peers_.find(name);
  const auto peer = known == peers_.end() ? nullptr : known->second.lock();
  if (!peer || peer->connections() < std::max<size_t>(left, 1)) return {};
  ++times_held_back_;
  return {Code::kUnavailable,
          fmt::format("{} has {} connections to this server, and only {} are left for all others", name,
                      peer->connections(), left)};
}

size_t Peers::held_back() const {
  return static_cast<size_t>(
      std::ranges::count_if(numbers_, [](const auto& entry) { return entry.second->is_held_back(); }));
}

void Peers::note_held_back(const Peer& peer, bool is_news) {
  ++times_held_back_;
  if (!is_news || !lines_.allow(clock_.now())) return;
  log::warning(
      "rpc: {} is held back: {} of its requests run (limit {}) and {} KiB of them are in memory (limit {}); "
      "others are served as before",
      peer.name(), peer.requests(), Peer::kMostRequests, peer.bytes() >> 10, Peer::kMostBytes >> 10);
}

}  // namespace kintsugi::rpc
