/// Admission of bulk fetches: how many this client has open to one server at a time.
///
/// Read-ahead over several windows would otherwise open a stream for each window and chunk; dozens of them share the
/// client's downlink with windows too small to recover from a loss without a timeout (incast).
#pragma once

#include <map>
#include <memory>

#include "common/base/ids.h"
#include "common/runtime/event.h"

namespace kintsugi::client {

class ServerTurns {
 public:
  /// More than one keeps the server busy while the next request is on its way.
  static constexpr size_t kFetchesAtOnce = 2;

  explicit ServerTurns(const runtime::Runtime& runtime) : runtime_(runtime) {}

  /// The turns of one server: a fetch holds one while it runs. They live as long as this object, which keeps as many as
  /// servers were ever read from.
  runtime::Semaphore& of(ServerId server) {
    auto& turns = turns_[server];
    if (!turns) turns = std::make_unique<runtime::Semaphore>(runtime_, kFetchesAtOnce);
    return *turns;
  }

 private:
  const runtime::Runtime& runtime_;
  std::map<ServerId, std::unique_ptr<runtime::Semaphore>> turns_;
};

}  // namespace kintsugi::client
