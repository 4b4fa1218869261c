/// Admission of one kind of transfer: how many this client has open to one server at a time.
#pragma once

#include <map>
#include <memory>

#include "common/base/ids.h"
#include "common/runtime/event.h"

namespace kintsugi::client {

class ServerTurns {
 public:
  /// Bulk fetches: more than one keeps the server busy while the next request is on its way. Read-ahead over several
  /// windows would otherwise open a stream for each window and chunk; dozens of them share the client's downlink with
  /// windows too small to recover from a loss without a timeout (incast).
  static constexpr size_t kFetchesAtOnce = 2;
  /// Writes of small chunks: with a block each, half of what a connection queues at most.
  static constexpr size_t kSmallWritesAtOnce = 128;

  ServerTurns(const runtime::Runtime& runtime, size_t at_once) : runtime_(runtime), at_once_(at_once) {}

  /// The turns of one server: a transfer holds one while it runs. They live as long as this object, which keeps as
  /// many as servers were ever asked for.
  runtime::Semaphore& of(ServerId server) {
    auto& turns = turns_[server];
    if (!turns) turns = std::make_unique<runtime::Semaphore>(runtime_, at_once_);
    return *turns;
  }

 private:
  const runtime::Runtime& runtime_;
  const size_t at_once_;
  std::map<ServerId, std::unique_ptr<runtime::Semaphore>> turns_;
};

}  // namespace kintsugi::client
