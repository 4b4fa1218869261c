/// Counts what each peer of a server has of it, and limits that: connections, requests that run, and bytes in its memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <boost/asio/any_io_executor.hpp>

#include "common/base/status.h"
#include "common/rpc/rate_limit.h"
#include "common/rpc/wakeup.h"
#include "common/runtime/clock.h"
#include "common/runtime/context.h"

namespace kintsugi::rpc {

struct Principal;
class Peers;

/// The number of a peer is in the numbers of its connections from this bit on.
inline constexpr int kPeerNumberShift = 40;
/// Whose request it is, as Peer::number() has it; 0: it is no request.
inline uint64_t peer_of(const Context& context) {
  return context.connection >> kPeerNumberShift;
}

/// "10.0.0.1" of "10.0.0.1:54321".
std::string_view address_of(std::string_view peer);

/// One request, or a part of one, takes so much of a server.
struct Need {
  size_t requests = 0, bytes = 0;
  /// It is one of the few small requests that each connection may have whatever its peer's others have: so whoever shares a
  /// token with a program that asks for too much still gets answers.
  bool always = false;
};

/// The holder of a token, wherever it connects from, or else an address. It lives as long as a connection or request of it.
class Peer : public std::enable_shared_from_this<Peer> {
 public:
  static constexpr size_t kMostRequests = 4096;   ///< requests that run at a time
  static constexpr size_t kMostBytes = 64 << 20;  ///< bytes of requests and answers in memory at a time
  /// Requests that begin before other peers have had their turn.
  static constexpr size_t kRequestsOfATurn = 64;
  static constexpr size_t kFewRequests = 4;           ///< requests of one connection (Need::always)
  static constexpr size_t kSmallBytes = 16 << 10;     ///< the most bytes of each of them
  static constexpr size_t kMostForAnswer = 64 << 10;  ///< taken for an answer that is not there yet
  static constexpr size_t kRequestBytes = 4 << 10;    ///< what a request takes beside its messages, about

  /// Use Peers::of. `peers` outlives what is here.
  Peer(std::shared_ptr<Peers> peers, std::string name, uint64_t number);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  /// What was granted; it goes back when this dies. Empty: nothing was.
  class [[nodiscard]] Held {
   public:
    Held() = default;
    Held(Held&& other) noexcept { swap(other); }
    Held& operator=(Held&& other) noexcept {
      Held(std::move(other)).swap(*this);
      return *this;
    }
    ~Held();
    explicit operator bool() const { return peer_ != nullptr; }
    /// Whatever the limits say: what exists already is counted.
    void resize(size_t bytes);

   private:
    friend class Peer;
    Held(std::shared_ptr<Peer> peer, const Need& need)
        : peer_(std::move(peer)), requests_(need.requests), bytes_(need.bytes) {}
    void swap(Held& other) noexcept {
      std::swap(peer_, other.peer_);
      std::swap(requests_, other.requests_);
      std::swap(bytes_, other.bytes_);
    }
    std::shared_ptr<Peer> peer_;
    size_t requests_ = 0, bytes_ = 0;
  };

  /// A place in the queue of those who wait for what their peer may have; leaves it when it dies.
  class Waiter {
   public:
    /// `told` is notified when it is granted, which may be at once, and outlives this.
    Waiter(Peer& peer, const Need& need, Wakeup& told);
    ~Waiter();
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;
    bool granted() const { return bool(held_); }
    Held take() { return std::move(held_); }

   private:
    friend class Peer;
    Peer& peer_;
    const Need need_;
    Wakeup& told_;
    std::list<Waiter*>::iterator at_;
    Held held_;
  };

  /// One of its connections, while this lives.
  class [[nodiscard]] Connected {
   public:
    explicit Connected(std::shared_ptr<Peer> peer) : peer_(std::move(peer)) { ++peer_->connections_; }
    ~Connected() { --peer_->connections_; }
    Connected(const Connected&) = delete;

   private:
    const std::shared_ptr<Peer> peer_;
  };

  /// Empty: it must wait (Waiter), behind others of this peer.
  Held try_hold(const Need& need);
  /// Holds so much memory, which is there already.
  Held hold_bytes(size_t bytes);

  /// Tells peers of a server apart; never 0, below 2^22.
  uint64_t number() const { return number_; }
  const std::string& name() const { return name_; }
  size_t connections() const { return connections_; }
  size_t requests() const { return requests_; }
  size_t bytes() const { return bytes_; }
  /// A request waits since others run or lie in memory.
  bool is_held_back() const;

 private:
  bool has_room(const Need& need) const {
    return need.always || (requests_ + need.requests <= kMostRequests && bytes_ + need.bytes <= kMostBytes);
  }
  bool has_turn(const Need& need) const { return need.requests == 0 || begun_ < kRequestsOfATurn; }
  Held hold(const Need& need);
  void give_back(size_t requests, size_t bytes);
  void grant();
  void ask_for_turn();

  const std::shared_ptr<Peers> peers_;
  const std::string name_;
  const uint64_t number_;
  size_t connections_ = 0, requests_ = 0, bytes_ = 0;
  size_t begun_ = 0;  ///< requests that began in this turn
  bool turn_asked_ = false;
  std::list<Waiter*> waiting_;  ///< the first came first
  size_t few_waiting_ = 0;      ///< those of them with Need::always
  RateLimit lines_{1, std::chrono::minutes(1)};
};

/// The peers of one server.
class Peers : public std::enable_shared_from_this<Peers> {
 public:
  Peers(const asio::any_io_executor& executor, const runtime::Clock& clock)
      : executor_(queueing(executor)), clock_(clock) {}

  /// Whoever is at the other end of a proven connection from `address` ("host:port").
  std::shared_ptr<Peer> of(const Principal& by, std::string_view address);
  /// kUnavailable: it has as many connections as `left` for everybody, so no more.
  Status check_connection(const Principal& by, std::string_view address, size_t left);

  /// How often a request had to wait since others of its peer ran or lay in memory, or a connection was refused.
  uint64_t times_held_back() const { return times_held_back_; }
  /// The number of peers that have a connection, and of those of which a request waits.
  size_t size() const { return peers_.size(); }
  size_t held_back() const;

 private:
  friend class Peer;
  static std::string name_of(const Principal& by, std::string_view address);
  /// `is_news`: the log may tell it.
  void note_held_back(const Peer& peer, bool is_news);

  const asio::any_io_executor executor_;
  const runtime::Clock& clock_;
  std::map<std::string, std::weak_ptr<Peer>, std::less<>> peers_;
  std::map<uint64_t, Peer*> numbers_;
  uint64_t last_number_ = 0;
  uint64_t times_held_back_ = 0;
  RateLimit lines_{10, std::chrono::minutes(1)};
};

}  // namespace kintsugi::rpc
