/// Has chunks read on their servers: one call at a time to each server, all servers side by side.
#pragma once

#include <deque>
#include <map>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "client/lib/check/verify_call.h"
#include "common/runtime/event.h"
#include "common/runtime/task_group.h"

namespace kintsugi::client {

/// Every chunk that is added is either verified or unread in the end, unless an error ended the round.
class CheckRound {
 public:
  static constexpr size_t kMaxQueued = 20'000;  ///< chunks in memory at a time
  static constexpr size_t kServersAtOnce = 256;
  static constexpr size_t kMaxChunksOfACall = 256;
  /// Limit for the chunks of one call; a larger single chunk is allowed.
  static constexpr uint64_t kMaxBytesOfACall = 256ull << 20;
  /// A call at a limited rate takes about this long.
  static constexpr Duration kRatedCall = std::chrono::seconds(30);
  static constexpr int kAttempts = 3;  ///< a server that fails so often in a row is given up
  static constexpr Duration kPause = std::chrono::milliseconds(500);  ///< pause after a failure
  /// After this time the place of a chunk is looked up again.
  static constexpr Duration kLocatedFor = std::chrono::minutes(30);

  /// An error of verified() ends the round.
  class Observer : public VerdictSink {
   public:
    /// The chunk's server was given up, or is no longer its place.
    virtual void unread(const CheckedChunk& chunk, const Status& why) = 0;
  };

  /// References outlive it. `bytes_per_second` is what each server may read; 0: no limit.
  CheckRound(Resources& resources, Context context, uint64_t bytes_per_second, Observer& observer);

  /// Waits while kMaxQueued chunks are queued. The error that ended the round.
  asio::awaitable<Status> add(CheckedChunk chunk);
  /// Waits until nothing is left to do. An error in `added` ends the round: what is queued is left out. Returns the
  /// first error. REQUIRES: called before the round is destroyed, and nothing is added later.
  asio::awaitable<Status> finish(Status added);

 private:
  struct Server {
    std::deque<CheckedChunk> queue;
    bool working = false;
    int failures = 0;  ///< failed calls in a row
    Status given_up;   ///< the reason why the server was given up; ok: it was not
  };

  asio::awaitable<void> work(Server& server);
  asio::awaitable<Status> check_some(Server& server);
  std::vector<CheckedChunk> take(Server& server) const;
  /// Looks chunks up again that were located too long ago; those that are elsewhere are told as unread.
  asio::awaitable<Status> refresh(std::vector<CheckedChunk>& chunks);
  void note_failure(Server& server, std::span<const CheckedChunk> unanswered, bool brought_some, Status why);
  void leave_queue(size_t chunks);
  void end(Status error);

  Resources& resources_;
  const Context context_;
  const uint64_t bytes_per_second_;
  Observer& observer_;
  std::map<ServerId, Server> servers_;
  size_t queued_ = 0;
  Status error_;  ///< the error that ended the round
  runtime::Event room_;
  runtime::Semaphore turns_;
  runtime::TaskGroup tasks_;
};

}  // namespace kintsugi::client
