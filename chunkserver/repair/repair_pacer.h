/// Keeps what repairs cost a server's users within bounds.
#pragma once

#include <functional>

#include "common/runtime/event.h"
#include "common/runtime/runtime.h"
#include "partial_sum/pace.h"

namespace kintsugi::chunkserver {

/// How busy users keep the server's link, in bytes per second. The pacer asks for it at each frame.
struct UserLoad {
  double user = 0;                    ///< bytes per second that users read and write now
  double link_up = 0, link_down = 0;  ///< bytes per second of the link, each way; 0: unknown
  size_t serving = 0;                 ///< reads and writes of users that run now
};

/// A token bucket each way on the server's clock: one for the sums that it sends, one for those that it takes in as an
/// inner node or root. Degraded reads are users' own and pass neither.
///
/// With a link of L and users at u bytes/s, repairs get max(5 % of the cap, min(cap, 0.95 L - u)); without a known link
/// they get the cap, and half of it while users are served or were within kUserMemory. Without a cap (0) the link takes
/// its place, but only while there are users: nothing is held up for its own sake.
///
/// The cluster's limit (`kintsugi repair limit`) is a bucket of its own beside these, through which urgent repairs do not
/// pass: both hold for all others.
///
/// Rates say nothing of the disk and the processor. So repairs also let users who are being served right now go first,
/// for at most kYieldForMiB a MiB.
class RepairPacer {
 public:
  static constexpr double kLeast = 0.05, kLinkShare = 0.95;
  static constexpr Duration kUserMemory = std::chrono::milliseconds(100);
  /// A pause saves up this much time's bytes, which may then go at once.
  static constexpr Duration kBurst = std::chrono::milliseconds(50);
  static constexpr Duration kYieldForMiB = std::chrono::milliseconds(10);
  /// Pause between two checks whether users are still being served.
  static constexpr Duration kCheckInterval = std::chrono::milliseconds(1);
  /// No single wait is longer, so that a slow repair is not taken for dead.
  static constexpr Duration kMaxWait = std::chrono::seconds(5);

  explicit RepairPacer(const runtime::Runtime& runtime)
      : clock_(runtime.clock), sending_(*this, runtime, true), receiving_(*this, runtime, false) {}

  /// Caps each direction; 0: no cap.
  void set_bandwidth(uint64_t bytes_per_second) { cap_ = static_cast<double>(bytes_per_second); }
  /// Caps what repairs that are not urgent move in each direction; 0: no cap.
  void set_cluster_limit(uint64_t bytes_per_second) { limit_ = static_cast<double>(bytes_per_second); }
  uint64_t cluster_limit() const { return static_cast<uint64_t>(limit_); }
  /// Set by the service. Empty: there are no users, and nothing is known of the link.
  std::function<UserLoad()> load;

  /// For a repair that is urgent or not.
  partial_sum::Pace& sending(bool urgent = false) { return urgent ? sending_.urgent : sending_.usual; }
  partial_sum::Pace& receiving(bool urgent = false) { return urgent ? receiving_.urgent : receiving_.usual; }

  /// The bytes per second that repairs may move now; 0: all they want.
  double rate(bool up);
  /// The time for which repairs were held up here, summed over all that passed.
  Duration waits() const { return sending_.waited() + receiving_.waited(); }
  /// Users are being served.
  bool users() const { return load && load().serving > 0; }

 private:
  class Direction {
   public:
    Direction(RepairPacer& pacer, const runtime::Runtime& runtime, bool up)
        : pacer_(pacer), clock_(runtime.clock), never_(runtime), up_(up) {}
    asio::awaitable<void> pass(uint64_t bytes, bool is_urgent);
    Duration waited() const { return waited_; }

    class Lane final : public partial_sum::Pace {
     public:
      Lane(Direction& direction, bool is_urgent) : direction_(direction), is_urgent_(is_urgent) {}
      asio::awaitable<void> pass(uint64_t bytes) override { return direction_.pass(bytes, is_urgent_); }

     private:
      Direction& direction_;
      bool is_urgent_;
    };
    Lane usual{*this, false}, urgent{*this, true};

   private:
    asio::awaitable<void> wait_turn(uint64_t bytes, bool is_urgent);
    /// Books bytes that pass at this rate, and returns when they may.
    TimePoint book(TimePoint& free, uint64_t bytes, double rate) const;
    asio::awaitable<void> let_users_go_first(uint64_t bytes);

    RepairPacer& pacer_;
    runtime::Clock& clock_;
    runtime::Event never_;  ///< never notified: waiting for it with a deadline is a pause
    bool up_;
    Duration waited_{};
    TimePoint free_;        ///< when the bytes admitted so far will have passed
    TimePoint free_usual_;  ///< the same by the cluster's limit, of repairs that are not urgent
  };

  runtime::Clock& clock_;
  double cap_ = 0, limit_ = 0;  ///< bytes per second; 0: none
  TimePoint users_until_;
  Direction sending_, receiving_;
};

}  // namespace kintsugi::chunkserver
