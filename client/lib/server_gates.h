/// Admission of bulk fetches: how many this client has open to one server at a time.
///
/// Read-ahead over several windows would otherwise open a stream for each window and chunk; dozens of them
/// share the client's downlink with windows too small to recover from a loss without a timeout (incast).
#pragma once

#include <map>
#include <memory>

#include "common/base/ids.h"
#include "common/runtime/event.h"

namespace kintsugi::client {

class ServerGates {
 public:
  /// More than one keeps the server busy while the next request is on its way.
  static constexpr size_t kFetchesAtOnce = 2;

  explicit ServerGates(const runtime::Runtime& runtime) : runtime_(runtime) {}

  /// Lives as long as this object. There are as many as servers were ever read from.
  runtime::Semaphore& of(ServerId server) {
    auto& gate = gates_[server];
    if (!gate) gate = std::make_unique<runtime::Semaphore>(runtime_, kFetchesAtOnce);
    return *gate;
  }

 private:
  const runtime::Runtime& runtime_;
  std::map<ServerId, std::unique_ptr<runtime::Semaphore>> gates_;
};

}  // namespace kintsugi::client
