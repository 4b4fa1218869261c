/// The requests that were read and whose handlers have not ended.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "client/mount/kernel/request.h"

namespace kintsugi::mount {

/// Owns the request objects, which it gives out again and again. What was given up is served on though nobody hears
/// the answer: it does not count against the limits, but there is never more of it than as much again.
class RequestsInFlight {
 public:
  struct Limits {
    size_t requests;
    size_t large_buffers;
  };
  /// `journal` outlives this, and the process: each request in flight has a word there with its `unique`. Empty, or
  /// two words for each request that `limits` allows.
  RequestsInFlight(Limits limits, std::span<std::atomic<uint64_t>> journal);

  size_t count() const { return active_.size(); }
  const std::vector<Request*>& all() const { return active_; }
  /// Null: it has ended.
  Request* find(uint64_t id) const;

  /// One more may begin.
  bool has_room() const;
  /// One more large buffer may be filled.
  bool has_room_for_large() const;

  /// The bytes of a request are yet to be parsed into it. REQUIRES: has_room().
  Request& begin();
  /// The kernel may learn of it from the journal when this process dies.
  void note(const Request& request);
  /// Its body stays where it is read from, `buffer`, which it takes along; a small one is copied.
  void hold_body(Request& request, runtime::Buffer& buffer);
  /// Its application hears no answer of its handler any more.
  void give_up(Request& request);
  /// Its handler has ended. `stays_noted`: the next process has to answer it.
  void end(Request& request, bool stays_noted);

  /// What a former process noted and did not answer; it is forgotten.
  std::vector<uint64_t> take_noted();

 private:
  struct Held {
    size_t requests = 0;
    size_t large_buffers = 0;
  };

  const Limits limits_;
  const std::span<std::atomic<uint64_t>> journal_;
  std::vector<std::unique_ptr<Request>> requests_;
  std::vector<Request*> free_;
  std::vector<Request*> active_;
  size_t large_held_ = 0;
  Held given_up_;
};

}  // namespace kintsugi::mount
