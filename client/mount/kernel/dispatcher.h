/// From a request of the kernel to one operation of the file system, and its answer back to the kernel's form. No
/// descriptor and no clock is touched here: the simulator and the fuzzer drive it without a kernel.
#pragma once

#include "client/mount/kernel/operations/operation.h"
#include "client/mount/kernel/request.h"

namespace kintsugi::mount {

class Dispatcher {
 public:
  explicit Dispatcher(FileSystem& file_system) : served_{file_system, {}} {}

  void agree(const Negotiated& negotiated) { served_.agreed = negotiated; }

  /// Runs the operation; fills request.reply and request.granted. Returns 0 or an errno. REQUIRES: request.operation.
  asio::awaitable<int> serve(Request& request);
  /// Gives back what `request` was granted, for its answer did not reach the kernel.
  asio::awaitable<void> undo(Request& request);

  /// FORGET and BATCH_FORGET, which have no answer.
  void forget(const Request& request);

 private:
  Served served_;
};

}  // namespace kintsugi::mount
